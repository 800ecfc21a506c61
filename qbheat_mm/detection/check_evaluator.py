# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The evaluator compares with the boxes that the data set reads."""
import logging
import os.path as osp
from collections.abc import Iterable

from mmdet.datasets.api_wrappers import COCO
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
    images; it never finds that the file holds more, which count as missed,
    or others under the same ids, or the categories in another order.

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
        if not isinstance(metric, CocoMetric):
            continue
        coco = getattr(metric, '_coco_api', None)
        if coco is None:
            _check_boxes(dataset, metric, part)
            continue
        if dataset.mended and not isinstance(metric, MatchedCocoMetric):
            raise UserError(
                f"annotation file '{dataset.ann_file}': {dataset.mended}; "
                f'mmdet\'s evaluator reads the file as it is: set '
                f"--cfg-options {part}_evaluator.type=MatchedCocoMetric")
        _check_images(dataset, coco, part)
        if (metric.classwise and not isinstance(metric, MatchedCocoMetric)
                and list(dataset.cat_ids) != sorted(dataset.cat_ids)):
            print_log(
                "mmdet's evaluator tells AP by class under the names of "
                'others, since the ids of the categories do not ascend in '
                f"'{dataset.ann_file}': set --cfg-options "
                f'{part}_evaluator.type=MatchedCocoMetric',
                logger='current', level=logging.WARNING)


def _check_boxes(dataset: MatchedCocoDataset, metric: CocoMetric,
                 part: str) -> None:
    """Without a file of its own a metric reads the boxes of the samples."""
    pack = dataset.pipeline.transforms[-1:]
    keys = getattr(pack[0], 'meta_keys', ()) if pack else ()
    if metric.format_only or 'instances' in keys:
        return
    raise UserError(
        f'{part}_evaluator.ann_file=None, and the samples hold no boxes: set '
        f'--cfg-options {part}_evaluator.ann_file={dataset.ann_file}, or add '
        "'instances' to meta_keys of the data set's last transform")


def _check_images(dataset: MatchedCocoDataset, coco: COCO, part: str) -> None:
    images = {info['img_id']: osp.basename(info['img_path']) for info in map(
        dataset.get_data_info, range(len(dataset)))}
    setting = f'{part}_evaluator.ann_file'
    way_out = f'set --cfg-options {setting}={dataset.ann_file}'
    strange = set(images) - set(coco.imgs)
    if strange:
        raise UserError(
            f'{len(strange)} of {len(images)} images of '
            f"'{dataset.ann_file}' are not in the annotation file of the "
            f'evaluator: {way_out}')
    others = [(name, found) for name, found in (
        (name, osp.basename(coco.imgs[number]['file_name']))
        for number, name in images.items()) if name != found]
    if others:
        ours, theirs = others[0]
        raise UserError(
            f'{len(others)} of {len(images)} images of '
            f"'{dataset.ann_file}' are others under the same ids in the "
            f'annotation file of the evaluator (as {ours!r} and {theirs!r}): '
            f'{way_out}')
    ids = coco.get_cat_ids(cat_names=dataset.metainfo['classes'])
    if list(ids) != list(dataset.cat_ids):
        raise UserError(
            f"the classes of '{dataset.ann_file}' have the ids "
            f'{list(dataset.cat_ids)}, and in the annotation file of the '
            f'evaluator {list(ids)}: {way_out}')
    more = set(coco.imgs) - set(images)
    if more:
        print_log(f'{len(more)} of {len(coco.imgs)} images of '
                  f'{setting} are not in the data set: their boxes count as '
                  'missed', logger='current', level=logging.WARNING)
