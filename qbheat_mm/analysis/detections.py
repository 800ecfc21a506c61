# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which objects does a detector find, confuse with others, and miss?

COCO's precision looks at one class at a time. Here all classes of an image
compete, above one score, which tells objects that were found as another class
from those that were not found.
"""
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from mmengine.structures import InstanceData
from torch import Tensor
from torchvision.ops import box_area, box_iou

from .style import BLUE, VERMILION, bare, grid, in_style, new_figure

#: COCO's sizes: smallest area in square pixels.
SIZES = dict(small=0, medium=32**2, large=96**2)
_COLUMNS = 4


@dataclass
class Match:
    """Objects and found boxes of one image, assigned to each other.

    Attributes:
        truth (InstanceData): The objects: ``bboxes`` (x1, y1, x2, y2),
            ``labels`` and ``areas`` (of their masks).
        found (InstanceData): What was found: ``bboxes``, ``labels`` and
            ``scores``, the best first.
        of_truth (Tensor): For each object its box in ``found``, or -1.
        of_found (Tensor): For each box its object, or -1.
    """
    truth: InstanceData
    found: InstanceData
    of_truth: Tensor
    of_found: Tensor

    @property
    def found_as(self) -> Tensor:
        """The class that each object was found as, (N, ), or -1."""
        labels = torch.cat([self.found.labels, torch.tensor([-1])])
        return labels[self.of_truth]

    @property
    def correct(self) -> Tensor:
        """Which objects were found with their class, (N, ), bool."""
        return self.found_as == self.truth.labels

    @property
    def num_errors(self) -> int:
        """Objects that were missed or confused, and boxes on nothing."""
        return int((~self.correct).sum() + (self.of_found < 0).sum())


def match_boxes(truth: InstanceData, found: InstanceData,
                crowds: InstanceData, iou: float = 0.5) -> Match:
    """Assign each found box to one object, the best boxes first.

    A box takes the object of its own class with the largest overlap; boxes
    and objects that are left over are matched across classes.

    Args:
        truth (InstanceData): See :class:`Match`.
        found (InstanceData): Likewise.
        crowds (InstanceData): Boxes around many objects of a class. As in
            COCO's evaluation, found boxes on one of their class and on no
            object are dropped.
        iou (float): Overlap that counts. Defaults to 0.5.
    """
    overlap = box_iou(found.bboxes, truth.bboxes)
    of_truth = torch.full((len(truth), ), -1)
    of_found = torch.full((len(found), ), -1)
    same = found.labels[:, None] == truth.labels
    for allowed in (same, ~same):
        for i in (of_found < 0).nonzero()[:, 0] if len(truth) else ():
            free = overlap[i] * (allowed[i] & (of_truth < 0))
            if free.max() >= iou:
                of_found[i] = free.argmax()
                of_truth[of_found[i]] = i
    kept = (of_found >= 0) | ~_lie_on(found, crowds, iou)
    of_found = of_found[kept]
    hits = (of_found >= 0).nonzero()[:, 0]
    of_truth[of_found[hits]] = hits  # without the dropped boxes
    return Match(truth, found[kept], of_truth, of_found)


def _lie_on(found: InstanceData, crowds: InstanceData,
            share: float) -> Tensor:
    """Boxes of which at least a share lies on a crowd of their class."""
    boxes = found.bboxes[:, None]
    sides = (torch.minimum(boxes[..., 2:], crowds.bboxes[:, 2:])
             - torch.maximum(boxes[..., :2], crowds.bboxes[:, :2]))
    areas = box_area(found.bboxes).clamp(min=1e-6)[:, None]
    same = found.labels[:, None] == crowds.labels
    return (same & (sides.clamp(min=0).prod(-1) >= share * areas)).any(1)


def confusions(matches: Iterable[Match], num_classes: int) -> np.ndarray:
    """Count how often each class was found as each other.

    Returns:
        ndarray: (C + 1, C + 1), int. Rows are objects, columns what they were
        found as; the last row is nothing, the last column was missed.
    """
    table = np.zeros((num_classes + 1, num_classes + 1), int)
    for match in matches:
        np.add.at(table, (match.truth.labels.numpy(),
                          match.found_as.numpy()), 1)
        nothing = match.found.labels[match.of_found < 0].numpy()
        np.add.at(table, (num_classes, nothing), 1)
    return table


def recall_by_size(matches: Sequence[Match]) -> dict[str, tuple[int, int]]:
    """Count correctly found and all objects, by COCO's sizes.

    As in COCO's evaluation, the size is the area of the annotation.
    """
    areas = torch.cat([match.truth.areas for match in matches])
    hit = torch.cat([match.correct for match in matches])
    size = np.digitize(areas, list(SIZES.values())[1:])
    return {name: (int(hit[size == i].sum()), int((size == i).sum()))
            for i, name in enumerate(SIZES)}


@in_style()
def draw_confusions(table: np.ndarray, names: Sequence[str]):
    """Draw the table of :func:`confusions` of classes with these names."""
    side = min(2.5 + 0.4 * len(table), 16)
    figure = new_figure(side + 0.5, side)
    axes = figure.subplots()
    share = table / table.sum(1, keepdims=True).clip(min=1)
    axes.imshow(share, vmin=0, vmax=1)
    if len(table) <= 25:
        for (row, column), value in np.ndenumerate(table):
            axes.text(column, row, value, ha='center', va='center',
                      fontsize=8, color='black' if share[row, column] > 0.6
                      else 'white')
    axes.set_xticks(range(len(table)), [*names, 'missed'], rotation=90)
    axes.set_yticks(range(len(table)), [*names, 'nothing'])
    axes.set(xlabel='found as', ylabel='object',
             title='number of objects; color: share of the row')
    return figure


@in_style()
def draw_errors(pictures: Sequence[np.ndarray], matches: Sequence[Match],
                names: Sequence[str]):
    """Draw images with missed objects (dashed) and wrong boxes (solid).

    Args:
        pictures (Sequence[ndarray]): RGB, (H, W, 3), one or more.
        matches (Sequence[Match]): Of the same images.
        names (Sequence[str]): Of the classes.
    """
    rows = -(-len(pictures) // _COLUMNS)
    figure = new_figure(2.4 * _COLUMNS, 2.5 * rows)
    all_axes = grid(figure, rows, _COLUMNS).flatten()
    for axes in all_axes:
        bare(axes)
    for axes, picture, match in zip(all_axes, pictures, matches):
        axes.imshow(picture)
        missed = match.truth[~match.correct]
        for box, label in zip(missed.bboxes, missed.labels):
            _draw_box(axes, box, names[label], BLUE, '--')
        wrong = torch.ones(len(match.found), dtype=torch.bool)
        wrong[match.of_truth[match.correct]] = False
        wrong = match.found[wrong]
        for box, label, score in zip(wrong.bboxes, wrong.labels,
                                     wrong.scores):
            _draw_box(axes, box, f'{names[label]} {score:.2f}', VERMILION,
                      '-')
    return figure


def _draw_box(axes, box: Tensor, text: str, color: str, line: str) -> None:
    left, top, right, bottom = box.tolist()
    axes.plot([left, right, right, left, left],
              [top, top, bottom, bottom, top], line, color=color)
    below = line == '--'
    axes.text(left, bottom if below else top, text, fontsize=8,
              color='white', va='top' if below else 'bottom',
              clip_on=True, bbox=dict(facecolor=color, pad=0.5, linewidth=0))
