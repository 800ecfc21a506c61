# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read settings from mmengine configs."""
import os.path as osp
from collections.abc import Mapping

from mmengine.config import Config

from ..errors import UserError


def open_file(path: str) -> Config:
    """Read a config file.

    Raises:
        UserError: If the path is a folder or a pipe.
    """
    if osp.exists(path) and not osp.isfile(path):
        raise UserError(f"config '{path}' is not a file")
    return Config.fromfile(path)


def type_name(settings: Mapping) -> str:
    """Return the class name in ``type``, without scope or module.

    The type may be a name or a class; ``''`` if there is none.
    """
    kind = settings.get('type') or ''
    return getattr(kind, '__name__', str(kind)).split('.')[-1]


def toolbox(cfg: Mapping) -> str | None:
    """Return the toolbox of a config, e.g. ``'mmdet'``; None if unknown.

    This is the default scope, or in new-style configs the package of the
    model's class.
    """
    if cfg.get('default_scope'):
        return cfg['default_scope']
    model = cfg.get('model')
    kind = model.get('type') if isinstance(model, Mapping) else None
    name = kind if isinstance(kind, str) else getattr(kind, '__module__', '')
    return name.split('.')[0] if name and '.' in name else None


def set_classes(cfg: Config, number: int) -> None:
    """Write the number of classes wherever a classifier needs it."""
    model = cfg.model.get('module', cfg.model)  # test-time augmentation
    for part in (model.head, model.get('data_preprocessor'),
                 cfg.get('data_preprocessor')):
        if part and 'num_classes' in part:
            part.num_classes = number


def dataset_settings(loader: Mapping | None) -> Mapping:
    """Return the settings of a loader's data set, without wrappers."""
    dataset = (loader or {}).get('dataset') or {}
    while 'dataset' in dataset:
        dataset = dataset['dataset']
    return dataset


def loader_settings(settings: Mapping) -> Mapping:
    """Drop worker settings if ``num_workers=0``."""
    if settings.get('num_workers') != 0:
        return settings
    kept = type(settings)(settings, persistent_workers=False)
    kept.pop('prefetch_factor', None)
    return kept
