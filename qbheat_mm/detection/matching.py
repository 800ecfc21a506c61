# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which boxes are found, and which score separates right from wrong."""
import contextlib
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from mmdet.datasets.api_wrappers import COCO, COCOeval

#: IoU at which a box counts as found.
IOU_THR = 0.5


class Matches(NamedTuple):
    """Boxes that were found, in images of a data set.

    Attributes:
        scores (np.ndarray): (N, ), descending.
        true_positives (np.ndarray): (N, ), bool.
        boxes (int): Number of true boxes.
    """
    scores: np.ndarray
    true_positives: np.ndarray
    boxes: int

    @property
    def precision(self) -> np.ndarray:
        """Precision of the boxes of each score or more, (N, )."""
        return self.true_positives.cumsum() / np.arange(
            1, len(self.true_positives) + 1)

    @property
    def recall(self) -> np.ndarray:
        """Recall of the boxes of each score or more, (N, )."""
        return self.true_positives.cumsum() / max(self.boxes, 1)

    @property
    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall at each score, (N, )."""
        number = np.arange(1, len(self.true_positives) + 1)
        return 2 * self.true_positives.cumsum() / (number + self.boxes)

    @property
    def threshold(self) -> float | None:
        """The score of the best F1; None without a true positive."""
        if not self.true_positives.any():
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
             iou_thr: float | None = IOU_THR, by_class: bool = True
             ) -> COCOeval:
    """Run COCO's evaluation, without its lines.

    Args:
        truth, found (COCO): True and found boxes.
        image_ids (Iterable[int]): Images to evaluate.
        iou_thr (float, optional): Match at this IoU only, for boxes of all
            sizes; None for COCO's ten thresholds and three sizes.
        by_class (bool): Whether boxes must be of the same class.
    """
    evaluation = COCOeval(truth, found, 'bbox')
    evaluation.params.imgIds = list(image_ids)
    evaluation.params.useCats = int(by_class)
    if iou_thr is not None:
        evaluation.params.iouThrs = np.array([iou_thr])
        evaluation.params.areaRng = [[0, 1e10]]
        evaluation.params.areaRngLbl = ['all']
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.evaluate()
    return evaluation


def match(truth: COCO, found: COCO, image_ids: Iterable[int]) -> Matches:
    """Match found to true boxes of the same class.

    As in COCO's evaluation, crowds and what is found there do not count.
    """
    scores, positives, boxes = [np.zeros(0)], [np.zeros(0, bool)], 0
    for one in evaluate(truth, found, image_ids).evalImgs:
        if one is None:
            continue
        counts = ~one['dtIgnore'][0].astype(bool)
        scores.append(np.array(one['dtScores'])[counts])
        positives.append(one['dtMatches'][0][counts] > 0)
        boxes += int((np.array(one['gtIgnore']) == 0).sum())
    scores, positives = np.concatenate(scores), np.concatenate(positives)
    order = np.argsort(-scores, kind='stable')
    return Matches(scores[order], positives[order], boxes)
