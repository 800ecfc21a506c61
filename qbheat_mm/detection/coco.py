# Copyright (c) QB-Heat MM authors. All rights reserved.
"""COCO data sets, evaluation and heads that agree on files and classes."""
import contextlib
import io
import os.path as osp
from collections.abc import Iterable

import numpy as np
from mmcv.transforms import LoadImageFromFile
from mmdet.datasets import CocoDataset
from mmdet.datasets.api_wrappers import COCO
from mmdet.evaluation import CocoMetric
from mmdet.registry import DATASETS, METRICS
from mmdet.visualization import get_palette
from mmengine.evaluator import BaseMetric
from mmengine.fileio import get_local_path
from mmengine.logging import MMLogger
from msgspec import Struct
from msgspec.structs import asdict

from ..datasets.coco_check import check_images, load_coco
from ..datasets.coco_file import CocoFile
from ..datasets.images import is_local
from ..errors import ImageError, UserError
from .matching import load_found, match
from .photographs import Photographs


def index_coco(content: CocoFile, for_evaluation: bool = False) -> COCO:
    """Index a checked file for mmdet.

    Args:
        content (CocoFile): See :func:`load_coco`.
        for_evaluation (bool): Convert annotations to dicts, to which COCO's
            evaluation adds keys. Defaults to False.
    """
    coco = COCO()
    coco.dataset = dict(images=_to_dicts(content.images),
                        categories=_to_dicts(content.categories),
                        annotations=content.annotations)
    if for_evaluation:
        coco.dataset['annotations'] = _to_dicts(content.annotations)
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
    coco.img_ann_map, coco.cat_img_map = coco.imgToAnns, coco.catToImgs
    return coco


def _to_dicts(records: Iterable[Struct]) -> list[dict]:
    return [asdict(record) for record in records]


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
        unlabeled (bool): Accept a file without boxes, such as a test set to
            be submitted. Defaults to False.
        shrink_to (tuple[int, int], optional): Longer and shorter side that
            ``Resize`` fits images to. Images of twice that size are then
            decoded once; see :class:`Photographs`. Defaults to None.
        **kwargs: See ``CocoDataset``.

    Attributes:
        report (CocoReport): What was found in the file.
    """

    def __init__(self,
                 *args,
                 allow_subset: bool = False,
                 unlabeled: bool = False,
                 shrink_to: tuple[int, int] | None = None,
                 **kwargs) -> None:
        self.photographs = None
        if shrink_to is not None:
            self.photographs = Photographs(shrink_to)
        self.allow_subset = allow_subset
        self.unlabeled = unlabeled
        prefix = kwargs.get('data_prefix')
        if isinstance(prefix, str):
            raise UserError(f'data_prefix={prefix!r} must be a dict: set '
                            f'data_prefix=dict(img={prefix!r})')
        metainfo = kwargs.get('metainfo')
        if metainfo and 'palette' not in metainfo:
            # COCO's palette has 80 colors.
            colors = get_palette('random', len(metainfo.get('classes', ())))
            palette = []
            for red, green, blue in colors:
                palette.append((int(red), int(green), int(blue)))
            kwargs['metainfo'] = dict(metainfo, palette=palette)
        super().__init__(*args, **kwargs)

    def COCOAPI(self, annotation_file: str) -> COCO:  # noqa: N802
        """Read and check the annotation file; called by ``CocoDataset``."""
        steps = self.pipeline.transforms
        content, self.report = load_coco(
            annotation_file, self.metainfo['classes'],
            # Metrics without a file evaluate the samples' instances.
            masks=any('instances' in getattr(step, 'meta_keys', ())
                      for step in steps),
            require_masks=any(getattr(step, 'with_mask', False)
                              for step in steps),
            allow_subset=self.allow_subset, unlabeled=self.unlabeled,
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

    def prepare_data(self, idx: int) -> dict | None:
        """Transform a sample; None if its file is skipped."""
        sample = self.get_data_info(idx)
        if self.photographs is not None:
            load = self.pipeline.transforms[0]
            try:
                sample = self.photographs.shrink(sample, load)
            except ImageError as error:
                return load.skip(error)
        return self.pipeline(sample)

    def filter_data(self) -> list[dict]:
        """Filter images; raise UserError if none is left."""
        kept = super().filter_data()
        if self.data_list and not kept:
            self.report.fail(f'no image passes filter_cfg={self.filter_cfg}')
        return kept

    def check_metrics(self, metrics: Iterable[BaseMetric],
                      name: str) -> None:
        """Require metrics to have the images and categories of this file.

        Args:
            metrics (Iterable[BaseMetric]): Those that evaluate the data set.
            name (str): Setting of the evaluator, for messages.
        """
        for metric in metrics:
            # CocoMetric keeps its file nowhere else.
            api = getattr(metric, '_coco_api', None)
            if api is not None:
                self._require_same_images(api, name)
                self._require_same_categories(
                    api, name, isinstance(metric, MatchedCocoMetric))

    def _require_same_images(self, api: COCO, name: str) -> None:
        """Require a metric's file to have these images by their ids."""
        for i in range(len(self)):
            info = self.get_data_info(i)
            image = osp.basename(info['img_path'])
            other = api.imgs.get(info['img_id'], {}).get('file_name', '')
            if osp.basename(other) != image:
                raise UserError(
                    f"image {info['img_id']} of '{self.ann_file}' is "
                    f"'{image}', but '{other}' in {name}.ann_file: set "
                    f'--cfg-options {name}.ann_file={self.ann_file}, or '
                    'merge the files of several data sets into one')

    def _require_same_categories(self, api: COCO, name: str,
                                 by_name: bool) -> None:
        """Require a metric's file to have the classes, by name or by id."""
        classes = self.metainfo['classes']
        ids = api.get_cat_ids(cat_names=classes)
        if len(ids) != len(classes) or (
                ids != list(self.cat_ids) and not by_name):
            raise UserError(
                f'{name}.ann_file has the category ids {ids} for '
                f"{list(classes)}, but '{self.ann_file}' has "
                f'{list(self.cat_ids)}: set --cfg-options '
                f'{name}.ann_file={self.ann_file} '
                f'{name}.type=MatchedCocoMetric')


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
                    unlabeled=self.format_only)
            self._coco_api = index_coco(content, for_evaluation=True)

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Evaluate with labels in the order of the category ids.

        COCO's evaluation sorts by these ids; ``CocoMetric`` would take the
        AP of one class for another's. It would call it an error if a
        detector finds nothing yet.

        Raises:
            UserError: If images share an id, whose boxes would be mixed.
        """
        ids = {predicted['img_id'] for _, predicted in results}
        if len(ids) < len(results):
            raise UserError(
                f'{len(results)} images with {len(ids)} ids were evaluated: '
                'give each its own id in one annotation file, and evaluate '
                'it once')
        logger = MMLogger.get_current_instance()
        if self._finds_nothing(results):
            logger.warning('no detections yet: AP is 0')
            return _no_precision(self.metrics)
        if self._coco_api is not None:
            ids_by_name = {category['name']: category['id']
                           for category in self._coco_api.cats.values()}
            ids = [ids_by_name[name] for name in self.dataset_meta['classes']]
            self.cat_ids = sorted(ids)
            ranks = np.argsort(np.argsort(ids))
            relabeled = []
            for truth, predicted in results:
                labels = ranks[predicted['labels']]
                relabeled.append((truth, dict(predicted, labels=labels)))
            results = relabeled
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            metrics = super().compute_metrics(results)
        # Without those on its progress
        summary = [line for line in printed.getvalue().splitlines()
                   if line.startswith(' Average')]
        if summary:
            logger.info('\n'.join(['', *summary]))
        if self._coco_api is not None and 'bbox' in self.metrics:
            self._add_threshold(metrics, [found for _, found in results])
        return metrics

    def _add_threshold(self, metrics: dict[str, float],
                       found: list[dict]) -> None:
        """Add the score of the best F1 of boxes, if any box is right."""
        if self.format_only:
            return
        ids = [image['img_id'] for image in found]
        boxes = load_found(self._coco_api, found, self.cat_ids)
        threshold = match(self._coco_api, boxes, ids).threshold
        if threshold is not None:
            metrics['bbox_threshold'] = round(threshold, 3)

    def _finds_nothing(self, results: list) -> bool:
        if self.format_only or not {*self.metrics} <= {'bbox', 'segm'}:
            return False
        return not any(len(found['labels']) for _, found in results)


def _no_precision(kinds: Iterable[str]) -> dict[str, float]:
    """The metrics of a detector that finds nothing."""
    metrics = {}
    for kind in kinds:
        for item in ('mAP', 'mAP_50', 'mAP_75', 'mAP_s', 'mAP_m', 'mAP_l'):
            metrics[f'{kind}_{item}'] = 0.
    return metrics
