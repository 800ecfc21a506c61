# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The evaluator compares with the boxes that the data set reads."""
import logging
from collections.abc import Iterable

from mmdet.evaluation import CocoMetric
from mmengine.evaluator import BaseMetric
from mmengine.logging import print_log

from qbheat_mm.errors import UserError

from .coco_dataset import MatchedCocoDataset
from .coco_metric import MatchedCocoMetric


def check_evaluator(dataset, metrics: Iterable[BaseMetric],
                    part: str, has_masks: bool) -> None:
    """Compare annotation files before time is spent.

    mmdet finds after the first epoch that the evaluator's file holds other
    images; it never finds that the file holds more, which count as missed.

    Args:
        dataset (Dataset): Of validation or test.
        metrics (Iterable[BaseMetric]): Of its evaluator.
        part (str): ``'val'`` or ``'test'``, for the message.
        has_masks (bool): Whether the model predicts masks.

    Raises:
        UserError: If the evaluator cannot evaluate the data set or model.
    """
    metrics = list(metrics)
    if not has_masks and any('segm' in metric.metrics for metric in metrics
                             if isinstance(metric, CocoMetric)):
        raise UserError(
            f"{part}_evaluator.metric names 'segm', and the model predicts "
            f'no masks: set --cfg-options {part}_evaluator.metric=bbox')
    if not isinstance(dataset, MatchedCocoDataset):
        return
    for metric in metrics:
        coco = getattr(metric, '_coco_api', None)
        if not isinstance(metric, CocoMetric) or coco is None:
            continue
        if dataset.mended and not isinstance(metric, MatchedCocoMetric):
            raise UserError(
                f"annotation file '{dataset.ann_file}': {dataset.mended}; "
                f'mmdet\'s evaluator reads the file as it is: set '
                f"--cfg-options {part}_evaluator.type=MatchedCocoMetric")
        _check_images(dataset, set(coco.imgs), part)


def _check_images(dataset: MatchedCocoDataset, known: set, part: str) -> None:
    images = {dataset.get_data_info(i)['img_id'] for i in range(len(dataset))}
    setting = f'{part}_evaluator.ann_file'
    if images - known:
        raise UserError(
            f'{len(images - known)} of {len(images)} images of '
            f"'{dataset.ann_file}' are not in the annotation file of the "
            f'evaluator: set --cfg-options {setting}={dataset.ann_file}')
    if known - images:
        print_log(f'{len(known - images)} of {len(known)} images of '
                  f'{setting} are not in the data set: their boxes count as '
                  'missed', logger='current', level=logging.WARNING)
