"""COCO-format data whose annotation file is checked before it is used."""
import copy
import logging

from mmcv.transforms import LoadImageFromFile
from mmdet.datasets import CocoDataset
from mmdet.datasets.api_wrappers import COCO
from mmdet.registry import DATASETS
from mmengine.logging import print_log

from qbheat_mm.annotations import (
    Checked,
    check_annotations,
    check_masks,
    check_pictures,
    read_annotations,
    size_loader,
)
from qbheat_mm.arguments import BOOL, checked
from qbheat_mm.errors import UserError
from qbheat_mm.utils.places import folders_of, is_local

from .coco_api import index


@DATASETS.register_module()
class MatchedCocoDataset(CocoDataset):
    """``CocoDataset`` that tells what it cannot use.

    The parent drops annotations of unknown categories and images, boxes
    without area and some more without a word, and numbers labels in the
    file's order, whatever the order of the classes: a forgotten ``metainfo``
    ends in an AP of 0, or in names that belong to other labels. Here such a
    file stops, what costs a few boxes is a warning with their number, and
    what says the same in another way (no ``iscrowd``, no ``area``) is mended,
    see :mod:`qbheat_mm.annotations`. The evaluator that reads the same is
    :class:`MatchedCocoMetric`.

    Args:
        *args: Of ``CocoDataset``.
        allow_subset (bool): The file may hold more categories than the
            classes; the rest is dropped on purpose. Defaults to False.
        unlabelled (bool): The file may hold no boxes, as that of a test set
            whose predictions are to be submitted. Defaults to False.
        **kwargs: Of ``CocoDataset``.
    """

    @checked(allow_subset=BOOL, unlabelled=BOOL)
    def __init__(self,
                 *args,
                 allow_subset: bool = False,
                 unlabelled: bool = False,
                 **kwargs) -> None:
        self.allow_subset = allow_subset
        self.unlabelled = unlabelled
        self.mended = ''  # what was mended in the file, for the evaluator
        folders_of(kwargs.get('data_prefix'))
        super().__init__(*args, **kwargs)
        # the parent's colours are those of COCO's 80 classes
        if 'palette' not in (kwargs.get('metainfo') or {}) and len(
                self.metainfo['classes']) > len(self.metainfo['palette']):
            self._metainfo['palette'] = 'random'

    def COCOAPI(self, annotation_file: str) -> COCO:
        """Read the file and check it, where the parent only reads it.

        Raises:
            UserError: If the set would be useless or another one.
        """
        checked = check_annotations(
            read_annotations(annotation_file, self.ann_file), self.ann_file,
            self.metainfo['classes'], self.allow_subset, self.unlabelled)
        if not checked.report.stops and any(
                getattr(step, 'with_mask', False)
                for step in self.pipeline.transforms):
            check_masks(checked.content, checked.images, checked.report)
        self._check_pictures(checked)
        checked.report.require()
        print_log(f"annotation file '{self.ann_file}': "
                  f'{checked.report.summary}', logger='current')
        checked.report.warn()
        self.mended = '; '.join(map(str, checked.report.of('mended')))
        return index(checked.content)

    def _check_pictures(self, checked: Checked) -> None:
        """Look for the pictures and open some, if the pipeline would."""
        folder = self.data_prefix.get('img')
        if folder is None:
            raise UserError(
                f"data set of annotation file '{self.ann_file}': data_prefix "
                f'has no img: set data_prefix=dict(img=FOLDER)')
        load = next((copy.copy(step) for step in self.pipeline.transforms
                     if isinstance(step, LoadImageFromFile)), None)
        if load is None or checked.images is None or not is_local(
                folder, load.backend_args):
            return
        skips = load.ignore_empty is True
        if skips:  # to be told of each
            load.ignore_empty = False
        check_pictures(checked.images, folder, size_loader(load),
                       checked.report, skips=skips,
                       sure=getattr(load, 'is_sure', False))

    def filter_data(self) -> list[dict]:
        """Leave out images as ``filter_cfg`` says.

        Raises:
            UserError: If none is left.
        """
        kept = super().filter_data()
        lost = len(self.data_list) - len(kept)
        line = (f"annotation file '{self.ann_file}': {lost} of "
                f'{len(self.data_list)} images are without boxes or smaller '
                f'than filter_cfg={self.filter_cfg} asks for, and left out')
        if not kept:
            raise UserError(f'{line}: set filter_cfg=dict(filter_empty_gt='
                            'False, min_size=1) of the dataset')
        if lost:
            print_log(line, logger='current', level=logging.INFO)
        return kept
