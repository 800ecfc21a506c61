# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checks of data sets in COCO's format that a configuration names."""
import os.path as osp
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from mmengine.config import Config
from mmengine.fileio import get_local_path, list_from_file

from ..annotations import (
    Report,
    check_annotations,
    check_masks,
    check_pictures,
    read_annotations,
    size_loader,
)
from ..annotations.report import MENDED, STOPS
from ..datasets import LoadNamedImageFromFile
from ..errors import UserError
from ..utils.places import folders_of, is_local
from ..utils.settings import type_name
from .data_check import datasets

# Ours checks its file when it is built; that of the demo is drawn.
_UNCHECKED, _CHECKING = 'CocoDataset', 'MatchedCocoDataset'


@dataclass
class DatasetReport:
    """What a data set holds.

    Attributes:
        report (Report): What was found.
        files (list[str]): The pictures.
        classes (list[str], optional): None for a set without classes.
    """
    report: Report
    files: list[str] = field(default_factory=list)
    classes: list[str] | None = None


def is_coco(dataset: dict) -> bool:
    """Whether a data set reads annotations in COCO's format."""
    return type_name(dataset) in (_UNCHECKED, _CHECKING)


def check_boxes(cfg: Config, parts: Iterable[str]) -> None:
    """Check the annotations of mmdet's own ``CocoDataset``.

    Our data set checks its file itself.

    Args:
        cfg (Config): The configuration.
        parts (Iterable[str]): Of ``'train'``, ``'val'``, ``'test'``.

    Raises:
        UserError: If they cannot be used, or would have to be mended.
    """
    for part in parts:
        for _, dataset in datasets(cfg, part):
            if type_name(dataset) == _UNCHECKED and is_local(
                    _ann_file(dataset), dataset.get('backend_args')):
                report = coco_report(dataset).report
                report.require()
                report.warn()


def coco_report(dataset: dict,
                deep: Callable[..., Iterable] | None = None) -> DatasetReport:
    """Check a data set in COCO's format.

    Args:
        dataset (dict): Its configuration.
        deep (Callable, optional): Maps a function over all pictures, see
            :func:`qbheat_mm.annotations.check_pictures`.

    Raises:
        UserError: If the annotation file cannot be read.
    """
    ann_file = _ann_file(dataset)
    with get_local_path(
            ann_file, backend_args=dataset.get('backend_args')) as local_path:
        content = read_annotations(local_path, ann_file)
    checked = check_annotations(
        content, ann_file, _classes(dataset),
        dataset.get('allow_subset', False), dataset.get('unlabelled', False))
    report = checked.report
    if not report.stops and any(
            isinstance(step, dict) and step.get('with_mask')
            for step in dataset.get('pipeline') or ()):
        check_masks(checked.content, checked.images, report)
    if type_name(dataset) == _UNCHECKED:
        _refuse_mending(report)
    result = DatasetReport(report)
    if checked.images is None:
        return result
    prefix = folders_of(dataset.get('data_prefix')).get('img') or ''
    folder = osp.join(dataset.get('data_root') or '', prefix)
    result.files = [osp.join(folder, record['file_name'])
                    for record in checked.images.records]
    if checked.categories is not None:
        result.classes = list(report.per_class)
    load = loader_of(dataset)
    if load is not None and is_local(folder, load.backend_args):
        skips = load.ignore_empty is True
        if skips:  # to be told of each
            load.ignore_empty = False
        check_pictures(checked.images, folder, size_loader(load), report,
                       deep, skips, load.is_sure)
    return result


def _ann_file(dataset: dict) -> str:
    return osp.join(dataset.get('data_root') or '',
                    dataset.get('ann_file') or '')


def _classes(dataset: dict) -> Sequence[str] | None:
    """The classes that a data set is told, or that its type knows."""
    classes = (dataset.get('metainfo') or {}).get('classes')
    if classes is None:
        try:
            from mmdet.datasets import CocoDataset
        except Exception:  # without mmdet nobody trains on them here
            return None
        classes = CocoDataset.METAINFO['classes']
    if isinstance(classes, str) and osp.isfile(classes):
        return _listed_classes(classes)
    return classes


def _listed_classes(file: str) -> list[str]:
    """The lines of a file of classes, which data sets take as they are.

    Raises:
        UserError: If they read others than whoever wrote them.
    """
    try:
        names = list_from_file(file)
    except UnicodeDecodeError:
        names = ['']
    if not all(name.strip() for name in names) or (
            names and names[0].startswith('\ufeff')):
        raise UserError(
            f"metainfo.classes='{file}' must be a text with a name in each "
            'line and no empty one: save it so, as UTF-8 without a byte '
            'order mark')
    return names


def loader_of(dataset: dict) -> LoadNamedImageFromFile | None:
    """A loader with the settings of the pipeline's."""
    for step in dataset.get('pipeline') or ():
        kind = type_name(step) if isinstance(step, dict) else ''
        if kind.startswith('Load') and kind.endswith('ImageFromFile'):
            known = ('color_type', 'imdecode_backend', 'backend_args',
                     'ignore_empty')
            return LoadNamedImageFromFile(
                **{key: step[key] for key in known if key in step})
    return None


def _refuse_mending(report: Report) -> None:
    """mmdet's own data set and evaluator read the file as it is."""
    for finding in report.of(MENDED):
        report.add(STOPS, finding.what, finding.count, finding.total,
                   finding.example,
                   f"set type='{_CHECKING}' of the data set and "
                   "type='MatchedCocoMetric' of the evaluator, which mend it")
