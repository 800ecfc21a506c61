# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checks of folders of images that a configuration names."""
import os
import os.path as osp
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from mmengine.registry import DATASETS
from PIL import Image

from ..annotations import Report
from ..annotations.columns import written
from ..annotations.pictures import SKIPPED, size_loader
from ..annotations.report import KEPT, STOPS
from ..datasets import LoadNamedImageFromFile
from ..errors import UserError
from ..utils.places import is_local
from .coco_report import DatasetReport, loader_of


def folder_report(dataset: dict,
                  deep: Callable[..., Iterable] | None = None
                  ) -> DatasetReport:
    """Count what a data set of mmpretrain reads, and what it does not.

    Args:
        dataset (dict): Its configuration.
        deep (Callable, optional): Maps a function over all pictures, as
            ``map`` does, to open them.

    Raises:
        UserError: If the data set cannot be built.
    """
    name = osp.join(dataset.get('data_root') or '',
                    _prefix(dataset.get('data_prefix')))
    report = Report(name, 'data of')
    try:
        built = DATASETS.build(dict(dataset, pipeline=[], lazy_init=False))
        items = [built.get_data_info(i) for i in range(len(built))]
    except UserError:
        raise
    except Exception as error:  # each data set has errors of its own
        reason = str(error).split('\n')[0]
        raise UserError(f"data of '{name}' cannot be listed: {reason}"
                        ) from error
    result = DatasetReport(report, [
        item['img_path'] for item in items if 'img_path' in item])
    # those of MNIST are arrays
    labels = Counter(int(item['gt_label']) for item in items
                     if isinstance(item.get('gt_label'), int | np.ndarray)
                     and np.ndim(item['gt_label']) == 0)
    classes = built.metainfo.get('classes')
    report.summary = f'{len(items)} images'
    if labels:
        result.classes = list(classes or map(str, sorted(labels)))
        report.per_class = {each: labels[i] for i, each
                            in enumerate(result.classes)}
        report.summary += f' in {len(result.classes)} classes'
        empty = [each for each, number in report.per_class.items()
                 if not number]
        report.add(KEPT, 'classes have no image', len(empty),
                   len(result.classes), f'as {written(empty[:1])}')
    if items and not result.files:  # in memory, as of CIFAR
        return result
    if not dataset.get('ann_file') and is_local(name) and osp.isdir(name):
        _check_unread(name, result.files, report)
    load = loader_of(dataset) or LoadNamedImageFromFile()
    if deep is not None and is_local(name, load.backend_args):
        _check_all(result.files, load, deep, report)
    return result


def _prefix(prefix) -> str:
    """``data_prefix`` of mmpretrain: text, or a dict of one."""
    if isinstance(prefix, dict):
        prefix = prefix.get('img_path', prefix.get('img'))
    return prefix or ''


def _check_unread(folder: str, read: list[str], report: Report) -> None:
    """Pictures below a folder that the data set does not read."""
    known = set(Image.registered_extensions()) | {'.heic', '.avif', '.jxl'}
    known -= {'.pdf', '.ps', '.eps', '.mpg', '.mpeg', '.h5', '.hdf'}
    taken = {osp.normpath(path) for path in read}
    left, example = Counter(), ''
    for root, _, names in os.walk(folder):
        for name in names:
            path = osp.normpath(osp.join(root, name))
            ending = osp.splitext(name)[1].lower()
            if ending in known and path not in taken:
                left[ending] += 1
                example = example or path
    endings = ', '.join(f'{number} {ending}' for ending, number
                        in sorted(left.items()))
    report.add(KEPT, f'files of pictures are not read: {endings}',
               sum(left.values()), example=f'as {written(example)}')


def _check_all(files: list[str], load: LoadNamedImageFromFile,
               deep: Callable[..., Iterable], report: Report) -> None:
    """Open every picture as training does."""
    skips = load.ignore_empty is True
    if skips:  # to be told of each
        load.ignore_empty = False
    failure = partial(_failure, files, size_loader(load))
    failures = [each for each in deep(failure, range(len(files))) if each]
    if failures:
        some = skips and len(failures) < len(files)
        report.add(KEPT if some else STOPS, 'images cannot be read'
                   f'{SKIPPED if some else ""}', len(failures), len(files),
                   failures[0])


def _failure(files: list[str], size_of: Callable, row: int) -> str | None:
    try:
        size_of(files[row])
    except UserError as error:
        return str(error)
    return None
