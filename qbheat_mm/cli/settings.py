# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From a config file and arguments to the settings of a run."""
import os
import os.path as osp
from argparse import Namespace
from collections.abc import Mapping

import torch
from mmengine.config import Config, ConfigDict

from ..errors import UserError
from ..utils.settings import loader_settings, toolbox
from .option_check import check_names, check_values

LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def read_config(path: str, options: Mapping | None = None) -> Config:
    """Read a config and replace settings by the user's options.

    Args:
        path (str): Config file.
        options (Mapping, optional): ``{'train_dataloader.batch_size': 4}``.

    Raises:
        UserError: If the file can't be read, an option doesn't fit, or a
            setting would be ignored silently.
    """
    cfg = parse_config(path)
    if toolbox(cfg) == 'mmpretrain':
        _set_loader_defaults(cfg)
    if options:
        check_names(cfg, options)
        _drop_none(cfg, options)
        try:
            cfg.merge_from_dict(dict(options))
        except (KeyError, TypeError, ValueError, IndexError,
                AttributeError) as error:
            written = ' '.join(f'{k}={v}' for k, v in options.items())
            raise UserError(f'--cfg-options {written} does not fit '
                            f"'{path}': {error}") from error
    try:
        check_values(cfg)
    except UserError as error:
        raise UserError(f"config '{path}': {error}") from None
    for name in LOADERS:
        if isinstance(cfg.get(name), Mapping):
            cfg[name] = loader_settings(cfg[name])
    return cfg


def parse_config(path: str) -> Config:
    """Run a config file and its bases.

    Raises:
        UserError: If the file is missing or fails.
    """
    if not osp.isfile(path):
        raise UserError(f"config '{path}' is not a file (looked in "
                        f"'{os.getcwd()}')")
    try:
        cfg = Config.fromfile(path)
        cfg.get('model')
    # The file is code, so it may raise anything.
    except Exception as error:
        raise UserError(f"config '{path}' can't be read: "
                        f'{type(error).__name__}: {error}') from error
    return cfg


def apply_common_arguments(cfg: Config, args: Namespace) -> None:
    """Set launcher and work folder."""
    cfg.launcher = args.launcher
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get('work_dir') is None:
        name = osp.splitext(osp.basename(args.config))[0]
        cfg.work_dir = osp.join('work_dirs', name)


def require_file(path: str, option: str) -> None:
    """Require that ``path`` is a file or a URL.

    Raises:
        UserError: Naming the path and the option that set it.
    """
    if '://' not in path and not osp.isfile(path):
        problem = ('is a folder' if osp.isdir(path)
                   else f"does not exist in '{os.getcwd()}'")
        raise UserError(f"checkpoint '{path}' ({option}) {problem}")


def _set_loader_defaults(cfg: Config) -> None:
    """Set what mmpretrain's own tools set."""
    for name in LOADERS:
        if isinstance(cfg.get(name), Mapping):
            cfg[name] = ConfigDict({
                'pin_memory': torch.cuda.is_available(),
                'persistent_workers': True,
                'collate_fn': dict(type='default_collate'), **cfg[name]})


def _drop_none(cfg: Config, options: Mapping) -> None:
    """Let ``a.b.c=1`` set a key below ``b=None``; sections stay None."""
    for option, value in options.items():
        section, *names = option.split('.')
        node = cfg.get(section)
        for name in names if isinstance(value, dict) else names[:-1]:
            if not isinstance(node, Mapping):
                break
            if name in node and node[name] is None:
                node.pop(name)
            node = node.get(name)
