# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Boxes that are found, missed and confused, and the page of them."""
import json
from types import SimpleNamespace

import mmcv
import numpy as np
import pytest
from mmengine.hooks import RuntimeInfoHook
from mmengine.logging import MessageHub

from qbheat_mm.detection import DetectionSummaryHook, MatchedCocoMetric
from qbheat_mm.detection.error_analysis import DetectionErrors, render_errors

CLASSES = ('pen', 'cup')  # ids 2 and 1: labels are not in their order
# Image, class and corner of true boxes of 20 x 20 pixels.
TRUE = [(1, 'cup', 0), (1, 'pen', 40), (2, 'cup', 0), (2, 'pen', 40),
        (3, 'pen', 40)]
# The same of found ones, with scores.
FOUND = [(1, 'cup', 0, .9), (1, 'pen', 40, .8), (2, 'cup', 1, .7),
         (2, 'cup', 40, .6), (2, 'pen', 70, .5), (3, 'pen', 41, .55),
         (3, 'cup', 70, .1)]


@pytest.fixture
def data(tmp_path):
    """An annotation file, what is found, and the images' files."""
    ids, files = dict(cup=1, pen=2), {}
    for key in (1, 2, 3):
        files[key] = str(tmp_path / f'{key}.png')
        mmcv.imwrite(np.zeros((100, 100, 3), np.uint8), files[key])
    annotations = [dict(
        id=i, image_id=image, category_id=ids[name], iscrowd=0, area=400,
        bbox=[corner, corner, 20, 20])
        for i, (image, name, corner) in enumerate(TRUE, 1)]
    (tmp_path / 'true.json').write_text(json.dumps(dict(
        images=[dict(id=key, file_name=f'{key}.png', width=100, height=100)
                for key in files], annotations=annotations,
        categories=[dict(id=key, name=name) for name, key in ids.items()])))
    found = []
    for key in files:
        own = [box for box in FOUND if box[0] == key]
        found.append(dict(
            img_id=key, scores=np.array([box[3] for box in own]),
            labels=np.array([CLASSES.index(box[1]) for box in own]),
            bboxes=np.array([[box[2]] * 2 + [box[2] + 20] * 2
                             for box in own], float)))
    return tmp_path / 'true.json', found, files


def test_errors_at_the_best_f1(data):
    file, found, files = data
    errors = DetectionErrors(str(file), found, files, CLASSES, .3)
    # Right are 0.9, 0.8, 0.7 and 0.55, wrong 0.6, 0.5 and 0.1: of 5 boxes,
    # F1 is 2 * 4 / (5 + 5) at 0.55.
    assert errors.threshold == .55
    assert errors.matches.precision[4] == errors.matches.recall[4] == .8
    assert errors.worst() == [2, 1, 3]
    table = errors.tabulate_classes()
    assert table.rows[0][0] == 'pen' and table.rows[0][-3:] == [3, 1, 0]
    assert table.rows[1][-3:] == [2, 0, 1]
    assert table.rows[1][1] == pytest.approx(100, abs=21)
    assert table.rows[1][4] is None  # there are no medium boxes
    confusion = errors.tabulate_confusion()
    assert confusion.columns == ['true', 'pen', 'cup', 'missed']
    assert confusion.rows == [['pen', 2, 1, 0], ['cup', 0, 2, 0],
                              ['background', 0, 0, 0]]
    page = render_errors(errors, 'three images')
    assert page.index('2.png') < page.index('1.png') < page.index('3.png')
    assert 'Suggested score: 0.55' in page


def test_a_detector_that_is_sure_of_nothing(data):
    file, found, files = data
    for image in found:
        image.update(bboxes=image['bboxes'] + 50, scores=image['scores'] / 9)
    errors = DetectionErrors(str(file), found, files, CLASSES, .3)
    assert len(errors.missed) == len(TRUE) and not errors.false_positives
    assert 'No detection is correct' in render_errors(errors, 'three images')


def test_checkpoints_have_the_threshold(data):
    file, found, _ = data
    metric = MatchedCocoMetric(str(file))
    metric.dataset_meta = dict(classes=CLASSES)
    metrics = metric.compute_metrics([({}, image) for image in found])
    assert metrics['bbox_threshold'] == .55
    hub = MessageHub('thresholds')
    runner, checkpoint = SimpleNamespace(message_hub=hub), dict(meta={})
    hook = DetectionSummaryHook()
    hook.before_save_checkpoint(runner, checkpoint)
    assert checkpoint == dict(meta={})
    hub.update_scalar('val/coco/bbox_threshold', .55)
    hook.before_save_checkpoint(runner, checkpoint)
    assert checkpoint['meta']['score_threshold'] == .55


def test_the_last_evaluation_decides_the_threshold():
    """Also if it finds nothing right, and so suggests none."""
    hub, checkpoint = MessageHub('last threshold'), dict(meta={})
    runner = SimpleNamespace(message_hub=hub, iter=1)
    hooks = RuntimeInfoHook(), DetectionSummaryHook()
    for metrics in ({'coco/bbox_mAP': .2, 'coco/bbox_threshold': .55},
                    {'coco/bbox_mAP': 0.}):
        for hook in hooks:
            hook.before_val_epoch(runner)
        for hook in hooks:
            hook.after_val_epoch(runner, metrics)
    hooks[1].before_save_checkpoint(runner, checkpoint)
    assert checkpoint == dict(meta={})


def test_nothing_right_suggests_nothing(data):
    file, found, files = data
    wrong = [dict(image, bboxes=image['bboxes'] + 500) for image in found]
    errors = DetectionErrors(str(file), wrong, files, CLASSES, .3)
    assert errors.matches.threshold is None and errors.threshold == .3
    assert len(errors.missed) == len(errors.truth.anns)
    assert 'no score to suggest' in render_errors(errors, '')
