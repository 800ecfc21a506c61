# Copyright (c) QB-Heat MM authors. All rights reserved.
"""COCO evaluation on the boxes that the data set reads."""
from collections.abc import Sequence

from mmdet.evaluation import CocoMetric
from mmdet.registry import METRICS
from mmengine.fileio import dump, get_local_path, load

from qbheat_mm.datasets.coco_check import (
    CocoFile,
    check_coco,
    check_masks,
    read_coco,
)

from .coco_dataset import OrderedCOCO


@METRICS.register_module()
class MatchedCocoMetric(CocoMetric):
    """``CocoMetric`` on a checked annotation file.

    Reads the file as :class:`MatchedCocoDataset` does. What is valid in COCO
    format is evaluated as by ``CocoMetric``.

    Args:
        ann_file (str, optional): Annotation file. By default the boxes of
            the samples are used; ``meta_keys`` of the pipeline's last
            transform must then include ``'instances'``.
        **kwargs: See ``CocoMetric``.
    """

    def __init__(self, ann_file: str | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self._content: CocoFile | None = None
        self._restored: dict[int, int] = {}
        if ann_file is None:
            return
        masks = 'segm' in self.metrics
        with get_local_path(
                ann_file, backend_args=self.backend_args) as local_path:
            content = read_coco(local_path, masks, ann_file)
        # A test set to be submitted has no boxes.
        report = check_coco(content, ann_file, unlabelled=self.format_only)
        if masks and not report.errors and not self.format_only:
            check_masks(content, report)
        report.require()
        self._content = content
        self._coco_api = OrderedCOCO(content, for_evaluation=True)

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Evaluate, also where category ids do not ascend with the labels.

        COCO's evaluation sorts categories by id, and ``CocoMetric`` names
        AP by class in the order of the classes. Ids are renumbered for the
        evaluation and restored in the written results.
        """
        if self._content is not None and not self.format_only:
            self._number_as_labels()
        self._files: dict[str, str] = {}
        metrics = super().compute_metrics(results)
        if self._restored and self.outfile_prefix is not None:
            for file in set(self._files.values()):
                predictions = load(file)
                for prediction in predictions:
                    prediction['category_id'] = self._restored[
                        prediction['category_id']]
                dump(predictions, file)
        return metrics

    def results2json(self, results: Sequence[dict],
                     outfile_prefix: str) -> dict[str, str]:
        """As ``CocoMetric``; remembers the files."""
        self._files = super().results2json(results, outfile_prefix)
        return self._files

    def _number_as_labels(self) -> None:
        """Let category ids ascend with the labels, once."""
        ids = self._coco_api.get_cat_ids(
            cat_names=self.dataset_meta['classes'])
        if ids == sorted(ids):
            return
        new = dict(zip(ids, sorted(ids)))
        for category in self._content.categories:
            category.id = new.get(category.id, category.id)
        for annotation in self._content.annotations:
            annotation.category_id = new.get(
                annotation.category_id, annotation.category_id)
        self._coco_api = OrderedCOCO(self._content, for_evaluation=True)
        self._restored = {value: key for key, value in new.items()}
