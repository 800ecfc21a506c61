# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which objects does a detector find, confuse with others, and miss?

COCO's precision looks at one class at a time. Here all classes of an image
compete, above one score, so that an object found as another one differs from
one that was not found.
"""
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torchvision.ops import box_iou

from .style import (
    BLUE,
    MAP,
    VERMILION,
    as_written,
    bare,
    grid,
    in_style,
    new_figure,
)

#: COCO's sizes: smallest area in square pixels.
SIZES = dict(small=0, medium=32**2, large=96**2)
_COLUMNS = 4


@dataclass
class Boxes:
    """Boxes of one image.

    Attributes:
        corners (ndarray): x1, y1, x2, y2 in pixels, (N, 4).
        labels (ndarray): Classes, (N, ).
        scores (ndarray, optional): (N, ).
        areas (ndarray, optional): Of the objects (their masks), in square
            pixels, (N, ). Defaults to the boxes' own.
    """
    corners: np.ndarray
    labels: np.ndarray
    scores: np.ndarray | None = None
    areas: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.corners = np.asarray(self.corners, float).reshape(-1, 4)
        self.labels = np.asarray(self.labels, int).reshape(-1)
        if self.areas is None:
            self.areas = (self.corners[:, 2:] - self.corners[:, :2]).prod(1)
        self.areas = np.asarray(self.areas, float).reshape(-1)

    def above(self, score: float) -> 'Boxes':
        """Those of at least some score, the best first."""
        order = np.argsort(-self.scores, kind='stable')
        return self[order[self.scores[order] >= score]]

    def __getitem__(self, which: np.ndarray) -> 'Boxes':
        return Boxes(self.corners[which], self.labels[which],
                     None if self.scores is None else self.scores[which],
                     self.areas[which])

    def __len__(self) -> int:
        return len(self.labels)


@dataclass
class Match:
    """Objects and found boxes of one image, assigned to each other.

    Attributes:
        truth (Boxes): The objects.
        found (Boxes): What was found, the best first.
        of_truth (ndarray): For each object its box in ``found``, or -1.
        of_found (ndarray): The other way around.
    """
    truth: Boxes
    found: Boxes
    of_truth: np.ndarray
    of_found: np.ndarray

    @property
    def correct(self) -> np.ndarray:
        """Which objects were found with their class, (N, ), bool."""
        labels = np.full(len(self.truth), -1)
        hit = self.of_truth >= 0
        labels[hit] = self.found.labels[self.of_truth[hit]]
        return labels == self.truth.labels

    @property
    def num_errors(self) -> int:
        """Objects that were missed or confused, and boxes on nothing."""
        return int((~self.correct).sum() + (self.of_found < 0).sum())


def match_boxes(truth: Boxes, found: Boxes, iou: float = 0.5,
                crowds: Boxes | None = None) -> Match:
    """Assign each found box to one object, the best boxes first.

    A box takes the object of its own class with the largest overlap; boxes
    and objects that are left over are matched across classes.

    Args:
        truth (Boxes): One object each.
        found (Boxes): What was found, the best first.
        iou (float): Overlap that counts. Defaults to 0.5.
        crowds (Boxes, optional): Boxes around many objects of a class. As in
            COCO's evaluation, what lies on one of its class and on no object
            is left out.
    """
    match = _match(truth, found, iou)
    if crowds is None or not len(crowds) or not len(found):
        return match
    ignored = (match.of_found < 0) & _lie_on(found, crowds, iou)
    return _match(truth, found[~ignored], iou) if ignored.any() else match


def _lie_on(found: Boxes, crowds: Boxes, share: float) -> np.ndarray:
    """Boxes of which at least a share lies on a crowd of their class."""
    a, b = found.corners[:, None], crowds.corners
    sides = np.minimum(a[..., 2:], b[:, 2:]) - np.maximum(a[..., :2],
                                                          b[:, :2])
    areas = (a[..., 2:] - a[..., :2]).prod(-1).clip(min=1e-6)
    same = found.labels[:, None] == crowds.labels
    return (same & (sides.clip(min=0).prod(-1) / areas >= share)).any(1)


def _match(truth: Boxes, found: Boxes, iou: float) -> Match:
    overlap = box_iou(torch.from_numpy(found.corners),
                      torch.from_numpy(truth.corners)).numpy()
    of_truth = np.full(len(truth), -1)
    of_found = np.full(len(found), -1)
    same = found.labels[:, None] == truth.labels
    for allowed in (same, ~same):
        for i in np.flatnonzero(of_found < 0):
            free = np.where(allowed[i] & (of_truth < 0), overlap[i], 0)
            if free.size and free.max() >= iou:
                of_found[i] = free.argmax()
                of_truth[of_found[i]] = i
    return Match(truth, found, of_truth, of_found)


def confusions(matches: Iterable[Match], num_classes: int) -> np.ndarray:
    """Count how often each class was found as each other.

    Returns:
        ndarray: (C + 1, C + 1), int. Rows are objects, columns what they were
        found as; the last row is nothing, the last column was missed.
    """
    table = np.zeros((num_classes + 1, num_classes + 1), int)
    for match in matches:
        found_as = np.where(match.of_truth < 0, num_classes,
                            np.append(match.found.labels, -1)[match.of_truth])
        np.add.at(table, (match.truth.labels, found_as), 1)
        nothing = match.found.labels[match.of_found < 0]
        np.add.at(table, (num_classes, nothing), 1)
    return table


def recall_by_size(matches: Sequence[Match]) -> dict[str, tuple[int, int]]:
    """Count correctly found and all objects, by COCO's sizes.

    Sizes follow ``Boxes.areas``, as COCO sorts by the annotation's area.
    """
    areas = np.concatenate([
        np.zeros(0), *(match.truth.areas for match in matches)])
    hit = np.concatenate([
        np.zeros(0, bool), *(match.correct for match in matches)])
    size = np.digitize(areas, list(SIZES.values())[1:])
    return {name: (int(hit[size == i].sum()), int((size == i).sum()))
            for i, name in enumerate(SIZES)}


@in_style()
def draw_confusions(table: np.ndarray, names: Sequence[str]):
    """Draw the table of :func:`confusions` of classes with these names."""
    side = min(2.5 + 0.4 * len(table), 16)
    figure = new_figure(side + 0.5, side)
    axes = figure.subplots()
    names = list(map(as_written, names))
    share = table / table.sum(1, keepdims=True).clip(min=1)
    axes.imshow(share, cmap=MAP, vmin=0, vmax=1)
    if len(table) <= 25:
        for (row, column), value in np.ndenumerate(table):
            axes.text(column, row, value, ha='center', va='center',
                      fontsize=7, color='black' if share[row, column] > 0.6
                      else 'white')
    axes.set_xticks(range(len(table)), [*names, 'missed'], rotation=90)
    axes.set_yticks(range(len(table)), [*names, 'nothing'])
    axes.set(xlabel='found as', ylabel='object')
    axes.set_title('number of objects; color: share of the row')
    return figure


@in_style()
def draw_sizes(found: dict[str, tuple[int, int]], precision: dict):
    """Draw recall and AP by size.

    Args:
        found (dict): Of :func:`recall_by_size`.
        precision (dict): Size to COCO's AP, NaN where there is no object.
    """
    figure = new_figure(4.5, 2.6)
    axes = figure.subplots()
    places = np.arange(len(found))
    recall = [hit / total if total else 0 for hit, total in found.values()]
    axes.bar(places - 0.2, recall, 0.4, color=BLUE, label='recall')
    axes.bar(places + 0.2, np.nan_to_num([precision[size] for size in found]),
             0.4, color=VERMILION, label='AP')
    axes.set_xticks(places, [
        f'{size}\n{total} objects' for size, (_, total) in found.items()])
    axes.set(ylim=(0, 1))
    axes.legend()
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
    all_axes = list(grid(figure, rows, _COLUMNS).flat)
    for axes in all_axes:
        bare(axes)
    for axes, picture, match in zip(all_axes, pictures, matches):
        axes.imshow(picture)
        for i in np.flatnonzero(~match.correct):
            _draw_box(axes, match.truth, i, names, BLUE, '--')
        right = set(match.of_truth[match.correct])
        for i in range(len(match.found)):
            if i not in right:
                _draw_box(axes, match.found, i, names, VERMILION, '-')
    return figure


def _draw_box(axes, boxes: Boxes, i: int, names, color: str,
              line: str) -> None:
    left, top, right, bottom = boxes.corners[i]
    axes.plot([left, right, right, left, left],
              [top, top, bottom, bottom, top], line, color=color)
    score = '' if boxes.scores is None else f' {boxes.scores[i]:.2f}'
    axes.text(left, bottom if line == '--' else top,
              as_written(names[boxes.labels[i]]) + score, fontsize=6,
              color='white', va='top' if line == '--' else 'bottom',
              clip_on=True, bbox=dict(facecolor=color, pad=0.5, linewidth=0))
