# Copyright (c) QB-Heat MM authors. All rights reserved.
"""COCO evaluation on the boxes that the data set reads, too."""
from mmdet.evaluation import CocoMetric
from mmdet.registry import METRICS
from mmengine.fileio import get_local_path

from qbheat_mm.annotations import (
    check_annotations,
    check_masks,
    read_annotations,
)
from qbheat_mm.arguments import BOOL, TEXT, checked, optional

from .coco_api import index


@METRICS.register_module()
class MatchedCocoMetric(CocoMetric):
    """``CocoMetric`` that checks and mends its annotation file.

    As :class:`MatchedCocoDataset` does: without that, an absent ``iscrowd``
    ends the first validation, annotations that share an id count as one, and
    boxes that nobody can find count as missed. What is valid in COCO's format
    is evaluated as ``CocoMetric`` does.

    Args:
        ann_file (str, optional): Annotation file. By default the boxes of the
            samples are taken; ``meta_keys`` of the pipeline's last transform
            must then name ``'instances'``.
        sort_categories (bool): As in ``CocoMetric``. Defaults to False.
        **kwargs: Of ``CocoMetric``.
    """

    @checked(ann_file=optional(TEXT), sort_categories=BOOL)
    def __init__(self,
                 ann_file: str | None = None,
                 sort_categories: bool = False,
                 **kwargs) -> None:
        super().__init__(**kwargs)
        if ann_file is None:
            return
        with get_local_path(
                ann_file, backend_args=self.backend_args) as local_path:
            content = read_annotations(local_path, ann_file)
        # A test set whose predictions are submitted has no boxes.
        checked = check_annotations(
            content, ann_file, unlabelled=self.format_only)
        if 'segm' in self.metrics and not (
                checked.report.stops or self.format_only):
            check_masks(content, checked.images, checked.report)
        checked.report.require()
        if sort_categories:
            content['categories'].sort(key=lambda category: category['id'])
        self._coco_api = index(content)
