# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pictures of the demo: detections beside ground truth, loss curves."""
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from qbheat_mm.analysis.style import (
    grid,
    in_style,
    new_figure,
    show_picture,
)

from . import CLASSES
from .results import read_log
from .scenes import MAX_OBJECTS

#: Detections with lower scores are not drawn.
MIN_SCORE = 0.3


def draw_loss_curves(runs: Mapping[str, Mapping[str, Path]],
                     file: Path) -> None:
    """Plot training losses, one panel per title, one line per work folder."""
    with in_style():
        figure = new_figure(9, 5.2)
        for axis, (title, folders) in zip(
                grid(figure, 2, -(-len(runs) // 2)).flat, runs.items()):
            for label, folder in folders.items():
                log = [line for line in read_log(folder) if 'loss' in line]
                axis.plot([line['step'] for line in log],
                          [line['loss'] for line in log], label=label)
            axis.set(title=title, xlabel='step', ylabel='training loss')
            axis.grid(alpha=0.3)
            if len(folders) > 1:
                axis.legend()
        figure.savefig(file, dpi=120)


def draw_detections(predictions: Path, file: Path, images: int = 4) -> None:
    """Show the first images with their objects, and with detections.

    Args:
        predictions (Path): Written by ``tools/test.py --out``.
        file (Path): The picture.
        images (int): Defaults to 4.
    """
    samples = pickle.loads(predictions.read_bytes())[:images]
    with in_style():
        figure = new_figure(2.2 * len(samples), 4.6)
        axes = grid(figure, 2, len(samples))
        for column, sample in zip(zip(*axes), samples):
            image = cv2.imread(sample['img_path'])[..., ::-1]
            truth = [(box['bbox'], box['bbox_label'], None)
                     for box in sample['instances']]
            detected = surest(sample['pred_instances'])
            for axis, boxes in zip(column, (truth, detected)):
                _draw_boxes(axis, image, boxes)
        for row, title in zip(axes, ('ground truth', 'RetinaNet')):
            row[0].set_ylabel(title)
        figure.savefig(file, dpi=130)


def draw_one_pass(images: Sequence[np.ndarray],
                  found: Mapping[str, Sequence]) -> Figure:
    """Show images, (H, W, 3), BGR, with what two heads found in each."""
    with in_style():
        rows = -(-len(images) // 3)
        figure = new_figure(6.6, 2.5 * rows)
        for axis, image, classes, boxes in zip(
                grid(figure, rows, 3).flat, images, found['classes'],
                found['boxes']):
            _draw_boxes(axis, image[..., ::-1], surest(boxes.pred_instances))
            label = int(classes.pred_label)
            axis.set_title(
                f'{CLASSES[label]} {classes.pred_score[label]:.2f}')
    return figure


def surest(found: Mapping) -> list[tuple]:
    """Box, label and score of the detections with the highest scores."""
    order = found['scores'].argsort(descending=True)[:MAX_OBJECTS]
    return [(found['bboxes'][i].tolist(), int(found['labels'][i]),
             float(found['scores'][i])) for i in order
            if found['scores'][i] >= MIN_SCORE]


def _draw_boxes(axis, image: np.ndarray, boxes: Sequence[tuple]) -> None:
    show_picture(axis, image)
    for (left, top, right, bottom), label, score in boxes:
        axis.add_patch(Rectangle((left, top), right - left, bottom - top,
                                 fill=False, edgecolor='white'))
        axis.text(left, top, CLASSES[label] + (f' {score:.2f}' if score
                                               else ''),
                  fontsize=8, va='bottom', color='black',
                  bbox=dict(facecolor='white', pad=0.5, linewidth=0))
