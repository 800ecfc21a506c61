# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Complete a config between reading it and building what it describes."""
import os
from collections.abc import Mapping

import torch
from mmengine.config import Config

from ..errors import UserError
from ..utils.settings import loader_settings, toolbox
from .classes import count_classes
from .encoder import use_encoder
from .teacher import use_teacher

LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def complete(cfg: Config, count: bool = False) -> None:
    """Complete a config, in this order.

    1. ``encoder=FILE``: see :func:`use_encoder`.
    2. ``teacher=FILE``: see :func:`use_teacher`. The encoder is its student.
    3. Loaders get the defaults of mmpretrain's tools.
    4. ``count_classes=True``: see :func:`count_classes`.

    Completing a completed config changes nothing.

    Args:
        cfg (Config): Changed in place.
        count (bool): Whether to count classes, which needs the data: a run
            does, whereas a checkpoint stores its classes. Defaults to False.

    Raises:
        UserError: If a file is missing or unsuitable.
    """
    if _is_set(cfg, 'encoder'):
        use_encoder(cfg)
    if _is_set(cfg, 'teacher'):
        use_teacher(cfg)
    set_loader_defaults(cfg)
    if count and cfg.get('count_classes'):
        count_classes(cfg)


def _is_set(cfg: Config, name: str) -> bool:
    """Whether a setting names a file; None stands for none.

    Raises:
        UserError: If it is anything else, such as the empty text of an unset
            variable of the shell.
    """
    file = cfg.get(name)
    if file is None:
        return False
    if not isinstance(file, str | os.PathLike) or not os.fspath(file).strip():
        raise UserError(f'{name}={file!r} is not a file: give the file or URL '
                        'of an encoder, or None')
    return True


def set_loader_defaults(cfg: Config) -> None:
    """Set the defaults of mmpretrain's tools; mmdet's have none."""
    defaults = {}
    if toolbox(cfg) == 'mmpretrain':
        defaults = dict(
            pin_memory=torch.cuda.is_available(), persistent_workers=True,
            collate_fn=dict(type='default_collate'))
    for name in LOADERS:
        if isinstance(cfg.get(name), Mapping):
            cfg[name] = loader_settings({**defaults, **cfg[name]})
