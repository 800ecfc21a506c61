# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pictures of the demo: detections beside ground truth, loss curves."""
import pickle
from collections.abc import Mapping
from pathlib import Path

import cv2
import matplotlib
import numpy as np

from . import CLASSES
from .results import read_log
from .scenes import MAX_OBJECTS

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402

#: Detections below this score are not drawn,
MIN_SCORE = 0.3
#: nor more than so many of an image, the surest ones.
MAX_DRAWN = MAX_OBJECTS


def draw_loss_curves(work_dirs: Mapping[str, Path], file: Path) -> None:
    """Plot the logged training losses, one panel a run.

    Args:
        work_dirs (Mapping[str, Path]): Titles and work folders.
        file (Path): The picture.
    """
    figure, axes = plt.subplots(
        1, len(work_dirs), figsize=(3.2 * len(work_dirs), 2.8),
        layout='constrained')
    for axis, (title, folders) in zip(axes, work_dirs.items()):
        for label, folder in folders.items():
            log = [line for line in read_log(folder) if 'loss' in line]
            axis.plot([line['step'] for line in log],
                      [line['loss'] for line in log], label=label)
        axis.set(title=title, xlabel='step', ylabel='training loss')
        axis.grid(alpha=0.3)
        if len(folders) > 1:
            axis.legend()
    figure.savefig(file, dpi=120)
    plt.close(figure)


def draw_detections(predictions: Mapping[str, Path], file: Path,
                    count: int = 6) -> None:
    """Show images with their objects and with what detectors found.

    Args:
        predictions (Mapping[str, Path]): Titles and files that
            ``tools/test.py --out`` wrote, of the same images.
        file (Path): The picture.
        count (int): Images. Defaults to 6.
    """
    samples = {
        title: pickle.loads(path.read_bytes())[:count]
        for title, path in predictions.items()
    }
    first = next(iter(samples.values()))
    columns = ['ground truth', *samples]
    figure, axes = plt.subplots(
        len(columns), len(first), squeeze=False, layout='constrained',
        figsize=(2 * len(first), 2.1 * len(columns)))
    for i, sample in enumerate(first):
        image = cv2.imread(sample['img_path'])[..., ::-1]
        truth = [(box['bbox'], box['bbox_label'], None)
                 for box in sample['instances']]
        found = [_detections(samples[title][i]) for title in samples]
        for axis, boxes in zip(axes[:, i], [truth, *found]):
            _draw_boxes(axis, image, boxes)
    for axis, title in zip(axes[:, 0], columns):
        axis.set_ylabel(title)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _detections(sample: Mapping) -> list[tuple]:
    """Boxes, labels and scores of the surest detections."""
    found = sample['pred_instances']
    surest = found['scores'].argsort(descending=True)[:MAX_DRAWN]
    return [(found['bboxes'][i].tolist(), int(found['labels'][i]),
             float(found['scores'][i])) for i in surest
            if found['scores'][i] >= MIN_SCORE]


def _draw_boxes(axis, image: np.ndarray, boxes: list[tuple]) -> None:
    axis.imshow(image)
    axis.set(xticks=[], yticks=[])
    for (left, top, right, bottom), label, score in boxes:
        axis.add_patch(
            plt.Rectangle((left, top), right - left, bottom - top,
                          fill=False, edgecolor='white', linewidth=1.5))
        text = CLASSES[label] + (f' {score:.2f}' if score else '')
        axis.text(
            left, top, text, fontsize=6, color='black', va='bottom',
            bbox=dict(facecolor='white', pad=0.5, linewidth=0))
