# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Head, checkpoint, data sets and evaluator must agree on the classes."""
import os.path as osp
from collections.abc import Iterable, Mapping, Sequence

from mmdet.evaluation import CocoMetric
from mmdet.registry import HOOKS
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn
from torch.utils.data import DataLoader

from qbheat_mm.errors import UserError

from .coco_dataset import MatchedCocoDataset

#: Parts of a detector that predict classes.
_HEADS = {'bbox_head', 'mask_head'}


@HOOKS.register_module()
class CheckClassesHook(Hook):
    """Compare the classes of head, checkpoint, data sets and evaluator.

    Raises UserError before training or testing if ``num_classes`` of a head
    is wrong, if the classes of two data sets or of the checkpoint are in
    another order, or if the evaluator reads other images or categories than
    the data set.
    """

    def __init__(self) -> None:
        self.trained_on: Sequence[str] = ()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Remember the classes of the checkpoint."""
        meta = checkpoint.get('meta')
        meta = meta.get('dataset_meta') if isinstance(meta, Mapping) else None
        classes = meta.get('classes') if isinstance(meta, Mapping) else None
        self.trained_on = tuple(classes or ())

    def before_train(self, runner: Runner) -> None:
        """Check training set, checkpoint, validation set and evaluator."""
        self._check_head(runner, runner.train_dataloader)
        classes = _classes(runner.train_dataloader)
        if len(self.trained_on) == len(classes):
            try:
                _compare('training set', classes, 'checkpoint',
                         self.trained_on)
            except UserError as error:
                if runner._resume:
                    raise
                runner.logger.warning(error)
        self.trained_on = classes
        if runner.val_loop is not None:
            _compare('validation set', _classes(runner.val_dataloader),
                     'training set', classes)
            _check_evaluator(runner.model, runner.val_dataloader.dataset,
                             runner.val_evaluator.metrics, 'val')

    def before_val(self, runner: Runner) -> None:
        """Check the validation set."""
        self._check_head(runner, runner.val_dataloader)

    def before_test(self, runner: Runner) -> None:
        """Check test set, checkpoint and evaluator."""
        self._check_head(runner, runner.test_dataloader)
        if self.trained_on:
            _compare('test set', _classes(runner.test_dataloader),
                     'checkpoint', self.trained_on)
        _check_evaluator(runner.model, runner.test_dataloader.dataset,
                         runner.test_evaluator.metrics, 'test')

    @staticmethod
    def _check_head(runner: Runner, dataloader: DataLoader) -> None:
        meta = dataloader.dataset.metainfo
        # Boxes of panoptic data are of things only.
        number = len(meta.get('thing_classes', meta['classes']))
        wrong = {
            name: module.num_classes
            for name, module in runner.model.named_modules()
            if _HEADS & set(name.split('.')) and 'loss' not in name
            and getattr(module, 'num_classes', number) != number}
        for name, found in wrong.items():
            name = name.removeprefix('module.')
            raise UserError(
                f'model.{name}.num_classes={found}, but the data set has '
                f'{number} classes {list(meta["classes"])}: set --cfg-options '
                f'model.{name}.num_classes={number}')


def _classes(dataloader: DataLoader) -> Sequence[str]:
    return dataloader.dataset.metainfo['classes']


def _compare(name: str, found: Sequence[str], other: str,
             classes: Sequence[str]) -> None:
    """Raise if a class of both has another position, hence label."""
    moved = [c for i, c in enumerate(found)
             if c in classes and list(classes).index(c) != i]
    if moved:
        raise UserError(
            f'the classes of the {name}, {list(found)}, are in another order '
            f'than those of the {other}, {list(classes)}: set '
            f'metainfo.classes of the {name} to the latter')


def _check_evaluator(model: nn.Module, dataset, metrics: Iterable[BaseMetric],
                     part: str) -> None:
    """Compare the evaluator's file with the data set's.

    mmdet notices other images after the first epoch, and never that the file
    holds more images or categories in another order.
    """
    setting = f'{part}_evaluator'
    has_masks = any(
        getattr(module, 'with_mask', False) for module in model.modules())
    for metric in metrics:
        if not isinstance(metric, CocoMetric):
            continue
        if 'segm' in metric.metrics and not has_masks:
            raise UserError(f"{setting}.metric includes 'segm', but the "
                            f'model predicts no masks: set --cfg-options '
                            f'{setting}.metric=bbox')
        api = getattr(metric, '_coco_api', None)
        if api is not None and isinstance(dataset, MatchedCocoDataset):
            way_out = (f'set --cfg-options {setting}.ann_file='
                       f'{dataset.ann_file}')
            _check_same_images(dataset, api.imgs, setting, way_out)
            ids = api.get_cat_ids(cat_names=dataset.metainfo['classes'])
            if list(ids) != list(dataset.cat_ids):
                raise UserError(
                    f'{setting}.ann_file has the category ids {list(ids)}, '
                    f"but '{dataset.ann_file}' has {list(dataset.cat_ids)}: "
                    f'{way_out}, and use MatchedCocoMetric')


def _check_same_images(dataset: MatchedCocoDataset, found: Mapping,
                       setting: str, way_out: str) -> None:
    for i in range(len(dataset)):
        info = dataset.get_data_info(i)
        name = osp.basename(info['img_path'])
        other = found.get(info['img_id'], {}).get('file_name', '')
        if osp.basename(other) != name:
            raise UserError(
                f"image {info['img_id']} of '{dataset.ann_file}' is '{name}', "
                f"but '{other}' in {setting}.ann_file: {way_out}")
