# Copyright (c) QB-Heat MM authors. All rights reserved.
"""COCO evaluation on the boxes that the data set reads, too."""
from collections.abc import Sequence

from mmdet.evaluation import CocoMetric
from mmdet.registry import METRICS
from mmengine.fileio import dump, get_local_path, load

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
        self._given_api = None
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
        self._coco_api = self._given_api = index(content)

    def compute_metrics(self, results: list) -> dict[str, float]:
        """As the parent; each class's own AP where ids do not ascend.

        COCO's evaluation sorts categories by id, and the parent tells AP by
        class in the order of the classes. The ids are exchanged meanwhile.
        """
        self._ids = {}
        if self._given_api is not None and not self.format_only:
            self._number_as_labels()
        metrics = super().compute_metrics(results)
        if self._ids and self.outfile_prefix is not None:
            for file in set(self._files.values()):
                predictions = load(file)
                for prediction in predictions:
                    prediction['category_id'] = self._ids[
                        prediction['category_id']]
                dump(predictions, file)
        return metrics

    def results2json(self, results: Sequence[dict],
                     outfile_prefix: str) -> dict[str, str]:
        """As the parent; where the files are is remembered."""
        self._files = super().results2json(results, outfile_prefix)
        return self._files

    def _number_as_labels(self) -> None:
        """Let ids ascend with the labels; remember those of the file."""
        given = self._given_api
        ids = given.get_cat_ids(cat_names=self.dataset_meta['classes'])
        if ids == sorted(ids):
            return
        self._ids = dict(zip(sorted(ids), ids))
        new = dict(zip(ids, sorted(ids)))
        self._coco_api = index(dict(given.dataset, **{
            name: [{**record, key: new.get(record[key], record[key])}
                   for record in given.dataset[name]]
            for name, key in (('categories', 'id'),
                              ('annotations', 'category_id'))}))
