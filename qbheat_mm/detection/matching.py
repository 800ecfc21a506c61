# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which boxes are found, and which score separates right from wrong."""
import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from mmdet.datasets.api_wrappers import COCO, COCOeval

#: Overlap (intersection over union) from which a box is found.
OVERLAP = 0.5


class Matches(NamedTuple):
    """Boxes that were found, in images of a data set.

    Attributes:
        scores (np.ndarray): (N, ), descending.
        right (np.ndarray): (N, ), whether a true box of the class is there.
        boxes (int): Number of true boxes.
    """
    scores: np.ndarray
    right: np.ndarray
    boxes: int

    @property
    def precision(self) -> np.ndarray:
        """Share of right boxes among those of each score or more, (N, )."""
        return self.right.cumsum() / np.arange(1, len(self.right) + 1)

    @property
    def recall(self) -> np.ndarray:
        """Share of true boxes that are found at each score or more, (N, )."""
        return self.right.cumsum() / max(self.boxes, 1)

    @property
    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall at each score, (N, )."""
        number = np.arange(1, len(self.right) + 1)
        return 2 * self.right.cumsum() / (number + self.boxes)

    @property
    def threshold(self) -> float | None:
        """The score of the best F1; None if nothing is right."""
        if not self.right.any():
            return None
        return float(self.scores[self.f1.argmax()])


def load_found(truth: COCO, found: Sequence[Mapping],
               category_ids: Sequence[int]) -> COCO:
    """Index what a detector finds.

    Args:
        truth (COCO): True boxes.
        found (Sequence[Mapping]): ``img_id``, ``bboxes`` (N, 4) as corners,
            ``scores`` and ``labels`` (N, ), of each image.
        category_ids (Sequence[int]): Id of each label.
    """
    records = []
    for image in found:
        boxes = np.array(image['bboxes'], float).reshape(-1, 4)
        boxes[:, 2:] -= boxes[:, :2]
        for box, score, label in zip(boxes.tolist(), image['scores'],
                                     image['labels']):
            records.append(dict(
                image_id=image['img_id'], bbox=box, score=float(score),
                category_id=category_ids[int(label)]))
    with contextlib.redirect_stdout(io.StringIO()):
        if records:
            return truth.loadRes(records)
        nothing = COCO()  # which loadRes cannot read
        nothing.dataset = dict(truth.dataset, annotations=[])
        nothing.createIndex()
        return nothing


def evaluate(truth: COCO, found: COCO, image_ids: Iterable[int], *,
             overlap: float | None = OVERLAP, by_class: bool = True
             ) -> COCOeval:
    """Run COCO's evaluation, without its lines.

    Args:
        truth, found (COCO): True and found boxes.
        image_ids (Iterable[int]): Images to evaluate.
        overlap (float, optional): Match at this overlap only, for boxes of
            all sizes; None for COCO's ten overlaps and three sizes.
        by_class (bool): Whether boxes must be of the same class.
    """
    evaluation = COCOeval(truth, found, 'bbox')
    evaluation.params.imgIds = list(image_ids)
    evaluation.params.useCats = int(by_class)
    if overlap is not None:
        evaluation.params.iouThrs = np.array([overlap])
        evaluation.params.areaRng = [[0, 1e10]]
        evaluation.params.areaRngLbl = ['all']
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.evaluate()
    return evaluation


def match(truth: COCO, found: COCO, image_ids: Iterable[int]) -> Matches:
    """Match found to true boxes of the same class.

    As in COCO's evaluation, crowds and what is found there do not count.
    """
    scores, right, boxes = [np.zeros(0)], [np.zeros(0, bool)], 0
    for one in evaluate(truth, found, image_ids).evalImgs:
        if one is None:
            continue
        counts = ~one['dtIgnore'][0].astype(bool)
        scores.append(np.array(one['dtScores'])[counts])
        right.append(one['dtMatches'][0][counts] > 0)
        boxes += int((np.array(one['gtIgnore']) == 0).sum())
    scores, right = np.concatenate(scores), np.concatenate(right)
    order = np.argsort(-scores, kind='stable')
    return Matches(scores[order], right[order], boxes)
