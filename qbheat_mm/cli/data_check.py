# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Is the data there? Asked before anything is built."""
import os.path as osp
from collections import defaultdict
from collections.abc import Iterable, Iterator

from mmengine.config import Config

from ..errors import UserError
from ..utils.places import is_local
from ..utils.settings import type_name

# mmpretrain downloads these itself.
_DOWNLOADED = ('CIFAR', 'MNIST', 'FashionMNIST')


def check_data(cfg: Config, parts: Iterable[str]) -> None:
    """Look for every data folder and annotation file of a configuration.

    Args:
        cfg (Config): The configuration.
        parts (Iterable[str]): Of ``'train'``, ``'val'``, ``'test'``.

    Raises:
        UserError: If one is missing, with the settings that name it.
    """
    settings = defaultdict(list)
    for part in parts:
        for setting, path in _paths(cfg, part):
            if not osp.exists(path):
                settings[path].append(setting)
    if not settings:
        return
    # The first is the outermost: a folder is named before what is in it.
    path, names = next(iter(settings.items()))
    more = len(settings) - 1
    more = f', nor do {more} more,' if more else ''
    raise UserError(
        f"data path '{path}' does not exist{more}: put or link the data there,"
        ' or give its place with --cfg-options '
        + ' '.join(f'{name}=PATH' for name in names))


def datasets(cfg: Config, part: str) -> Iterator[tuple[str, dict]]:
    """Settings and data sets of a part, with those inside of wrappers."""
    loader = cfg.get(f'{part}_dataloader')
    if loader is not None:
        yield from _datasets(f'{part}_dataloader.dataset',
                             loader.get('dataset'))


def _paths(cfg: Config, part: str) -> Iterator[tuple[str, str]]:
    """Settings and the local paths that they name for ``part``."""
    for setting, dataset in datasets(cfg, part):
        yield from _dataset_paths(setting, dataset)
    evaluators = cfg.get(f'{part}_evaluator')
    if isinstance(evaluators, dict) and evaluators.get('ann_file'):
        path = evaluators['ann_file']
        if is_local(path, evaluators.get('backend_args')):
            yield f'{part}_evaluator.ann_file', path


def _datasets(setting: str, dataset) -> Iterator[tuple[str, dict]]:
    """A data set and, in a wrapper or a concatenation, those inside."""
    if not isinstance(dataset, dict):
        return
    yield setting, dataset
    yield from _datasets(f'{setting}.dataset', dataset.get('dataset'))
    for i, part in enumerate(dataset.get('datasets') or []):
        yield from _datasets(f'{setting}.datasets.{i}', part)


def _dataset_paths(setting: str, dataset: dict) -> Iterator[tuple[str, str]]:
    """What a data set reads: its root, else the files below the root."""
    if type_name(dataset).startswith(_DOWNLOADED):
        return
    mapped = [args for args in _backends(dataset) if not is_local('', args)]
    root = dataset.get('data_root') or ''
    if root and is_local(root) and not mapped and not osp.exists(root):
        yield f'{setting}.data_root', root
        return
    prefix = dataset.get('data_prefix') or {}
    prefix = prefix if isinstance(prefix, dict) else {'': prefix}
    below = {f'data_prefix.{key}'.rstrip('.'): (value, not mapped)
             for key, value in prefix.items()}
    below['ann_file'] = (dataset.get('ann_file'),
                         is_local('', dataset.get('backend_args')))
    for name, (value, local) in below.items():
        if isinstance(value, str) and value and local:
            path = osp.join(root, value)
            if is_local(path):
                yield f'{setting}.{name}', path


def _backends(dataset: dict) -> Iterator[dict | None]:
    """How a data set and the steps of its pipeline read files."""
    yield dataset.get('backend_args')
    for step in dataset.get('pipeline') or ():
        if isinstance(step, dict):
            yield step.get('backend_args')
