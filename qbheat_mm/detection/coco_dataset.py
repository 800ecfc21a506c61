# Copyright (c) QB-Heat MM authors. All rights reserved.
"""COCO data sets and evaluation on checked annotation files."""
from collections.abc import Sequence

from mmcv.transforms import LoadImageFromFile
from mmdet.datasets import CocoDataset
from mmdet.datasets.api_wrappers import COCO
from mmdet.registry import DATASETS
from mmengine.logging import MMLogger

from qbheat_mm.datasets.coco_check import (
    CocoFile,
    CocoReport,
    check_coco,
    check_images,
    check_masks,
    read_coco,
)
from qbheat_mm.errors import UserError
from qbheat_mm.utils.settings import is_local


class OrderedCOCO(COCO):
    """mmdet's index of a checked file, with categories in a given order.

    Args:
        content (CocoFile): As checked by :func:`check_coco`.
        for_evaluation (bool): Hold annotations as dicts, to which COCO's
            evaluation adds keys. Defaults to False.
    """

    def __init__(self, content: CocoFile,
                 for_evaluation: bool = False) -> None:
        super().__init__()
        annotations = content.annotations
        if for_evaluation:
            annotations = [each.as_dict() for each in annotations]
        self.dataset = dict(
            images=[image.as_dict() for image in content.images],
            categories=[each.as_dict() for each in content.categories],
            annotations=annotations)
        self.createIndex()
        self.img_ann_map, self.cat_img_map = self.imgToAnns, self.catToImgs

    def get_cat_ids(self,
                    cat_names: Sequence[str] = (),
                    sup_names: Sequence[str] = (),
                    cat_ids: Sequence[int] = ()) -> list[int]:
        """Ids in the order of ``cat_names``, which labels follow.

        mmdet's come in the order of the file.
        """
        ids = super().get_cat_ids([*cat_names], [*sup_names], [*cat_ids])
        order = {name: i for i, name in enumerate(cat_names)}
        return sorted(ids, key=lambda number: order.get(
            self.cats[number]['name'], len(order)))


@DATASETS.register_module()
class MatchedCocoDataset(CocoDataset):
    """``CocoDataset`` on a checked annotation file.

    Labels follow ``metainfo.classes`` whatever the order of the file, files
    with other categories stop, and boxes that cannot be used are counted in
    a warning (see :mod:`qbheat_mm.datasets.coco_check`). Evaluate with
    :class:`MatchedCocoMetric`.

    Args:
        *args: See ``CocoDataset``.
        allow_subset (bool): Ignore categories of the file that are not among
            the classes. Defaults to False.
        unlabelled (bool): The file may hold no boxes, as a test set to be
            submitted. Defaults to False.
        **kwargs: See ``CocoDataset``.
    """

    def __init__(self,
                 *args,
                 allow_subset: bool = False,
                 unlabelled: bool = False,
                 **kwargs) -> None:
        self.allow_subset = allow_subset
        self.unlabelled = unlabelled
        prefix = kwargs.get('data_prefix') or {}
        if isinstance(prefix, str):
            raise UserError(f'data_prefix={prefix!r} must be a dict: set '
                            f'data_prefix=dict(img={prefix!r})')
        metainfo = kwargs.get('metainfo')
        if metainfo and 'palette' not in metainfo:
            # COCO's palette is for its own 80 classes.
            kwargs['metainfo'] = dict(metainfo, palette='random')
        super().__init__(*args, **kwargs)

    def COCOAPI(self, annotation_file: str) -> COCO:
        """Read and check the annotation file; called by ``CocoDataset``.

        Raises:
            UserError: If the data set is useless or another one.
        """
        steps = self.pipeline.transforms
        masks = any(getattr(step, 'with_mask', False) for step in steps)
        # An evaluator without a file evaluates the instances of the samples.
        packed = any('instances' in getattr(step, 'meta_keys', ())
                     for step in steps)
        content = read_coco(annotation_file, masks or packed, self.ann_file)
        report = check_coco(content, self.ann_file, self.metainfo['classes'],
                            self.allow_subset, self.unlabelled)
        if masks and not report.errors:
            check_masks(content, report)
        self._check_images(content, report)
        report.require()
        logger = MMLogger.get_current_instance()
        logger.info(f"annotation file '{self.ann_file}': {report.summary}")
        for line in report.warnings:
            logger.warning(f"annotation file '{self.ann_file}': {line}")
        return OrderedCOCO(content)

    def _check_images(self, content: CocoFile, report: CocoReport) -> None:
        load = next((step for step in self.pipeline.transforms
                     if isinstance(step, LoadImageFromFile)), None)
        folder = self.data_prefix.get('img', '')
        if load is not None and is_local(folder, load.backend_args):
            check_images(
                content.images, folder, report,
                'ignore_orientation' not in load.color_type,
                skip_missing=load.ignore_empty is True)

    def filter_data(self) -> list[dict]:
        """Leave out images as ``filter_cfg`` says.

        Raises:
            UserError: If none is left.
        """
        kept = super().filter_data()
        if self.data_list and not kept:
            raise UserError(
                f"annotation file '{self.ann_file}': no image passes "
                f'filter_cfg={self.filter_cfg}; set filter_cfg=dict('
                'filter_empty_gt=False, min_size=1)')
        return kept
