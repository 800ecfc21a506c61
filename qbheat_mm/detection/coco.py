# Copyright (c) QB-Heat MM authors. All rights reserved.
"""COCO data sets, evaluation and heads that agree on files and classes."""
import os.path as osp
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from mmcv.transforms import LoadImageFromFile
from mmdet.datasets import CocoDataset
from mmdet.datasets.api_wrappers import COCO
from mmdet.evaluation import CocoMetric
from mmdet.registry import DATASETS, HOOKS, METRICS
from mmengine.evaluator import BaseMetric
from mmengine.fileio import get_local_path
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from mmengine.runner import Runner
from msgspec.structs import asdict
from torch.utils.data import DataLoader

from qbheat_mm.datasets.coco_check import CocoFile, check_images, load_coco
from qbheat_mm.errors import UserError
from qbheat_mm.utils.settings import is_local


def index_coco(content: CocoFile, for_evaluation: bool = False) -> COCO:
    """Index a checked file for mmdet.

    Args:
        content (CocoFile): See :func:`load_coco`.
        for_evaluation (bool): Convert annotations to dicts, to which COCO's
            evaluation adds keys. Defaults to False.
    """
    coco = COCO()
    coco.dataset = dict(
        images=[asdict(each) for each in content.images],
        categories=[asdict(each) for each in content.categories],
        annotations=[asdict(each) for each in content.annotations]
        if for_evaluation else content.annotations)
    coco.createIndex()
    coco.img_ann_map, coco.cat_img_map = coco.imgToAnns, coco.catToImgs
    return coco


@DATASETS.register_module()
class MatchedCocoDataset(CocoDataset):
    """``CocoDataset`` on a checked annotation file.

    Labels follow ``metainfo.classes`` whatever the order in the file, other
    categories are an error, and unusable boxes are counted in a warning (see
    :mod:`qbheat_mm.datasets.coco_check`). Evaluate with
    :class:`MatchedCocoMetric`.

    Args:
        *args: See ``CocoDataset``.
        allow_subset (bool): Ignore categories of the file that are not among
            the classes. Defaults to False.
        unlabelled (bool): Accept a file without boxes, such as a test set to
            be submitted. Defaults to False.
        **kwargs: See ``CocoDataset``.

    Attributes:
        report (CocoReport): What was found in the file.
    """

    def __init__(self,
                 *args,
                 allow_subset: bool = False,
                 unlabelled: bool = False,
                 **kwargs) -> None:
        self.allow_subset = allow_subset
        self.unlabelled = unlabelled
        prefix = kwargs.get('data_prefix')
        if isinstance(prefix, str):
            raise UserError(f'data_prefix={prefix!r} must be a dict: set '
                            f'data_prefix=dict(img={prefix!r})')
        metainfo = kwargs.get('metainfo')
        if metainfo and 'palette' not in metainfo:
            # COCO's palette has 80 colors.
            kwargs['metainfo'] = dict(metainfo, palette='random')
        super().__init__(*args, **kwargs)

    def COCOAPI(self, annotation_file: str) -> COCO:
        """Read and check the annotation file; called by ``CocoDataset``."""
        steps = self.pipeline.transforms
        content, self.report = load_coco(
            annotation_file, self.metainfo['classes'],
            # Metrics without a file evaluate the samples' instances.
            masks=any('instances' in getattr(step, 'meta_keys', ())
                      for step in steps),
            require_masks=any(getattr(step, 'with_mask', False)
                              for step in steps),
            allow_subset=self.allow_subset, unlabelled=self.unlabelled,
            name=self.ann_file)
        load = next((step for step in steps
                     if isinstance(step, LoadImageFromFile)), None)
        folder = self.data_prefix.get('img', '')
        if load is not None and is_local(folder, load.backend_args):
            check_images(content, folder, self.report,
                         'ignore_orientation' not in load.color_type,
                         skip_unreadable=load.ignore_empty is True)
        logger = MMLogger.get_current_instance()
        logger.info(f"annotation file '{self.ann_file}': "
                    f'{self.report.summary}')
        for line in self.report.warnings:
            logger.warning(f"annotation file '{self.ann_file}': {line}")
        return index_coco(content)

    def filter_data(self) -> list[dict]:
        """Filter images by ``filter_cfg``.

        Raises:
            UserError: If none is left.
        """
        kept = super().filter_data()
        if self.data_list and not kept:
            self.report.fail(f'no image passes filter_cfg={self.filter_cfg}')
        return kept


@METRICS.register_module()
class MatchedCocoMetric(CocoMetric):
    """``CocoMetric`` on a checked annotation file.

    Args:
        ann_file (str, optional): Read as by :class:`MatchedCocoDataset`. By
            default the boxes of the samples are used; ``meta_keys`` of the
            pipeline's last transform must then include ``'instances'``.
        **kwargs: See ``CocoMetric``.
    """

    def __init__(self, ann_file: str | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        if ann_file is not None:
            masks = 'segm' in self.metrics and not self.format_only
            with get_local_path(
                    ann_file, backend_args=self.backend_args) as local_path:
                content, _ = load_coco(
                    local_path, require_masks=masks, name=ann_file,
                    unlabelled=self.format_only)
            self._coco_api = index_coco(content, for_evaluation=True)

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Evaluate with labels in the order of the category ids.

        COCO's evaluation sorts by these ids; ``CocoMetric`` would take the
        AP of one class for another's.
        """
        if self._coco_api is not None:
            by_name = {each['name']: each['id']
                       for each in self._coco_api.cats.values()}
            ids = [by_name[name] for name in self.dataset_meta['classes']]
            self.cat_ids = sorted(ids)
            ranks = np.argsort(np.argsort(ids))
            results = [(truth, dict(found, labels=ranks[found['labels']]))
                       for truth, found in results]
        return super().compute_metrics(results)


@HOOKS.register_module()
class CheckClassesHook(Hook):
    """Compare the classes of heads, checkpoint, data sets and evaluator.

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
        _check_heads(runner, runner.train_dataloader)
        classes = runner.train_dataloader.dataset.metainfo['classes']
        if runner._resume:
            _compare('training set', classes, 'checkpoint', self.trained_on)
        self.trained_on = classes
        if runner.val_loop is not None:
            dataset = runner.val_dataloader.dataset
            _compare('validation set', dataset.metainfo['classes'],
                     'training set', classes)
            _check_evaluator(dataset, runner.val_evaluator.metrics, 'val')

    def before_val(self, runner: Runner) -> None:
        """Check the validation set."""
        _check_heads(runner, runner.val_dataloader)

    def before_test(self, runner: Runner) -> None:
        """Check test set, checkpoint and evaluator."""
        _check_heads(runner, runner.test_dataloader)
        dataset = runner.test_dataloader.dataset
        _compare('test set', dataset.metainfo['classes'], 'checkpoint',
                 self.trained_on)
        _check_evaluator(dataset, runner.test_evaluator.metrics, 'test')


def _check_heads(runner: Runner, dataloader: DataLoader) -> None:
    meta = dataloader.dataset.metainfo
    # Panoptic data have boxes of things only.
    classes = meta.get('thing_classes', meta['classes'])
    for name, module in runner.model.named_modules():
        found = getattr(module, 'num_classes', len(classes))
        is_head = {'bbox_head', 'mask_head'} & {*name.split('.')}
        if is_head and 'loss' not in name and found != len(classes):
            name = name.removeprefix('module.')
            raise UserError(
                f'model.{name}.num_classes={found}, but the data set has '
                f'{len(classes)} classes {list(classes)}: set --cfg-options '
                f'model.{name}.num_classes={len(classes)}')


def _compare(name: str, found: Sequence[str], other: str,
             classes: Sequence[str]) -> None:
    """Raise if a shared class has another position, hence label."""
    if any(each in classes and list(classes).index(each) != i
           for i, each in enumerate(found)):
        raise UserError(
            f'the classes of the {name}, {list(found)}, are in another order '
            f'than those of the {other}, {list(classes)}: set '
            f'metainfo.classes of the {name} to the latter')


def _check_evaluator(dataset, metrics: Iterable[BaseMetric],
                     part: str) -> None:
    """Require the evaluator's file to match the data set's."""
    if not isinstance(dataset, MatchedCocoDataset):
        return
    advice = f'set --cfg-options {part}_evaluator.ann_file={dataset.ann_file}'
    classes = dataset.metainfo['classes']
    for metric in metrics:
        api = getattr(metric, '_coco_api', None)
        if api is None:
            continue
        for i in range(len(dataset)):
            info = dataset.get_data_info(i)
            name = osp.basename(info['img_path'])
            other = api.imgs.get(info['img_id'], {}).get('file_name', '')
            if osp.basename(other) != name:
                raise UserError(
                    f"image {info['img_id']} of '{dataset.ann_file}' is "
                    f"'{name}', but '{other}' in {part}_evaluator.ann_file: "
                    f'{advice}')
        ids = api.get_cat_ids(cat_names=classes)
        if len(ids) != len(classes) or ids != list(
                dataset.cat_ids) and not isinstance(metric,
                                                    MatchedCocoMetric):
            raise UserError(
                f'{part}_evaluator.ann_file has the category ids {ids} for '
                f"{list(classes)}, but '{dataset.ann_file}' has "
                f'{list(dataset.cat_ids)}: {advice} '
                f'{part}_evaluator.type=MatchedCocoMetric')
