# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Is the data there? Asked before anything is built."""
import os.path as osp
from collections import defaultdict
from collections.abc import Iterable, Iterator

from mmengine.config import Config

from ..errors import UserError

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
            if '://' not in path and not osp.exists(path):
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


def _paths(cfg: Config, part: str) -> Iterator[tuple[str, str]]:
    """Settings and the paths that they name for ``part``."""
    loader = cfg.get(f'{part}_dataloader')
    if loader is not None:
        for setting, dataset in _datasets(
                f'{part}_dataloader.dataset', loader.get('dataset')):
            yield from _dataset_paths(setting, dataset)
    evaluators = cfg.get(f'{part}_evaluator')
    if isinstance(evaluators, dict) and evaluators.get('ann_file'):
        yield f'{part}_evaluator.ann_file', evaluators['ann_file']


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
    if str(dataset.get('type', '')).split('.')[-1].startswith(_DOWNLOADED):
        return
    root = dataset.get('data_root') or ''
    if root and not osp.exists(root):
        yield f'{setting}.data_root', root
        return
    prefix = dataset.get('data_prefix') or {}
    prefix = prefix if isinstance(prefix, dict) else {'': prefix}
    below = {f'data_prefix.{key}'.rstrip('.'): value
             for key, value in prefix.items()}
    below['ann_file'] = dataset.get('ann_file')
    for name, value in below.items():
        if isinstance(value, str) and value:
            yield f'{setting}.{name}', osp.join(root, value)
