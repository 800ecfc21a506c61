# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The pictures of what detectors find."""
import pickle

import cv2
import numpy as np
import torch

from projects.drawn_world import pictures


def test_each_picture_has_its_own_detections(tmp_path, monkeypatch):
    rows = []
    for i in range(2):
        cv2.imwrite(str(tmp_path / f'{i}.png'),
                    np.full((20, 20, 3), 100 * i, np.uint8))
        box = [float(i), 2., 8., 9.]
        rows.append(dict(
            img_path=str(tmp_path / f'{i}.png'),
            instances=[dict(bbox=box, bbox_label=i)],
            pred_instances=dict(bboxes=torch.tensor([box]),
                                labels=torch.tensor([i + 2]),
                                scores=torch.tensor([.5]))))
    (tmp_path / 'a.pkl').write_bytes(pickle.dumps(rows))
    drawn = []
    monkeypatch.setattr(
        pictures, '_draw_boxes', lambda axis, image, boxes: drawn.append(
            [int(image[0, 0, 0]), *((int(box[0]), label)
                                    for box, label, _ in boxes)]))
    pictures.draw_detections(tmp_path / 'a.pkl', tmp_path / 'a.png')
    # ground truth, then what was found, image by image
    assert drawn == [[0, (0, 0)], [0, (0, 2)], [100, (1, 1)], [100, (1, 3)]]
