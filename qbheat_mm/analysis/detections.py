# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which objects a detector finds, takes for others, and misses.

Beside COCO's precision, which sorts by score and sees one class at a time:
here all classes of an image compete, above one score, so that an object that
was found as another one is told from one that was not found.
"""
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torchvision.ops import box_iou

#: COCO's sizes: objects from so many square pixels on.
SIZES = dict(small=0, medium=32**2, large=96**2)


@dataclass
class Boxes:
    """Boxes of one image.

    Attributes:
        corners (ndarray): x1, y1, x2, y2 in pixels, (N, 4).
        labels (ndarray): Classes, (N, ).
        scores (ndarray, optional): (N, ).
        areas (ndarray, optional): Of what is inside, as that of a mask, in
            square pixels, (N, ). Defaults to that of the boxes.
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
        return self.at(order[self.scores[order] >= score])

    def at(self, which: np.ndarray) -> 'Boxes':
        """Some of them, by a mask or by numbers."""
        return Boxes(self.corners[which], self.labels[which],
                     None if self.scores is None else self.scores[which],
                     self.areas[which])

    def __len__(self) -> int:
        return len(self.labels)


@dataclass
class Match:
    """What became of the objects and of the found boxes of one image.

    Attributes:
        truth (Boxes): What there is.
        found (Boxes): What was found, the best first.
        of_truth (ndarray): For each object its box in ``found``, -1 for none.
        of_found (ndarray): The other way around.
    """
    truth: Boxes
    found: Boxes
    of_truth: np.ndarray
    of_found: np.ndarray

    @property
    def correct(self) -> np.ndarray:
        """Which objects were found, and as what they are, (N, ), bool."""
        labels = np.full(len(self.truth), -1)
        hit = self.of_truth >= 0
        labels[hit] = self.found.labels[self.of_truth[hit]]
        return labels == self.truth.labels

    @property
    def num_errors(self) -> int:
        """Objects that were not found as what they are, and boxes on none."""
        return int((~self.correct).sum() + (self.of_found < 0).sum())


def match_boxes(truth: Boxes, found: Boxes, iou: float = 0.5,
                crowds: Boxes | None = None) -> Match:
    """Give each found box one object, the best boxes first.

    A box takes the object of its own class with the largest overlap; what is
    left over then takes objects of other classes. No object is taken twice.

    Args:
        truth (Boxes): What there is, one object each.
        found (Boxes): What was found, the best first.
        iou (float): Overlap that counts. Defaults to 0.5.
        crowds (Boxes, optional): Boxes around many objects of a class. What
            lies on one of its class and on no object is neither right nor
            wrong, as in COCO's evaluation, and is left out.
    """
    match = _match(truth, found, iou)
    if crowds is None:
        return match
    ignored = (match.of_found < 0) & _lie_on(found, crowds, iou)
    return _match(truth, found.at(~ignored), iou) if ignored.any() else match


def _lie_on(found: Boxes, crowds: Boxes, share: float) -> np.ndarray:
    """Boxes of which at least a share lies on a crowd of their class."""
    from mmdet.evaluation.functional import bbox_overlaps

    shares = bbox_overlaps(found.corners, crowds.corners, mode='iof')
    same = found.labels[:, None] == crowds.labels
    return (same & (shares >= share)).any(1)


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
    """How often what there is was found as what.

    Returns:
        ndarray: (C + 1, C + 1), int. Rows are what there is, columns what was
        found; the last row is nothing, the last column was missed.
    """
    table = np.zeros((num_classes + 1, num_classes + 1), int)
    for match in matches:
        as_what = np.where(match.of_truth < 0, num_classes,
                           np.append(match.found.labels, -1)[match.of_truth])
        np.add.at(table, (match.truth.labels, as_what), 1)
        nothing = match.found.labels[match.of_found < 0]
        np.add.at(table, (num_classes, nothing), 1)
    return table


def recall_by_size(matches: Sequence[Match]
                   ) -> dict[str, tuple[int, int]]:
    """Objects that were found as what they are, and all, by COCO's sizes.

    They are those of ``Boxes.areas``, as COCO sorts by the annotation's area
    where it has one.
    """
    areas = np.concatenate([
        np.zeros(0), *(match.truth.areas for match in matches)])
    hit = np.concatenate([
        np.zeros(0, bool), *(match.correct for match in matches)])
    size = np.digitize(areas, list(SIZES.values())[1:])
    return {name: (int(hit[size == i].sum()), int((size == i).sum()))
            for i, name in enumerate(SIZES)}
