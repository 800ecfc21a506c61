# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Find the data sets of a config, and check that their folders exist."""
import os.path as osp
from collections.abc import Iterable, Iterator

from mmengine.config import Config

from ..errors import UserError
from ..utils.places import is_local
from ..utils.settings import type_name


def check_data(cfg: Config, parts: Iterable[str]) -> None:
    """Check ``data_root`` and ``ann_file`` before anything is built.

    Args:
        cfg (Config): The config.
        parts (Iterable[str]): Of ``'train'``, ``'val'``, ``'test'``.

    Raises:
        UserError: Naming the path and the setting.
    """
    for part in parts:
        for setting, dataset in datasets(cfg, part):
            # mmpretrain downloads these.
            if type_name(dataset).startswith(('CIFAR', 'MNIST', 'Fashion')):
                continue
            backend = dataset.get('backend_args')
            root = dataset.get('data_root') or ''
            file = dataset.get('ann_file') or ''
            for name, path in (('data_root', root),
                               ('ann_file', file and osp.join(root, file))):
                if path and is_local(path, backend) and not (
                        osp.exists(path) or _is_mapped(dataset)):
                    raise UserError(f"'{path}' does not exist: set "
                                    f'{setting}.{name}')


def datasets(cfg: Config, part: str) -> Iterator[tuple[str, dict]]:
    """Settings and data sets of a part, wrappers and what they wrap."""
    loader = cfg.get(f'{part}_dataloader')
    if loader is not None:
        yield from _datasets(f'{part}_dataloader.dataset',
                             loader.get('dataset'))


def _datasets(setting: str, dataset) -> Iterator[tuple[str, dict]]:
    if not isinstance(dataset, dict):
        return
    yield setting, dataset
    yield from _datasets(f'{setting}.dataset', dataset.get('dataset'))
    for i, part in enumerate(dataset.get('datasets') or []):
        yield from _datasets(f'{setting}.datasets.{i}', part)


def _is_mapped(dataset: dict) -> bool:
    """Whether a storage backend of the pipeline finds the files elsewhere."""
    return any(not is_local('', step.get('backend_args'))
               for step in dataset.get('pipeline') or ()
               if isinstance(step, dict))
