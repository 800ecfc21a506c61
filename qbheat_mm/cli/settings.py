# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read configs and apply the command line."""
import os
import os.path as osp
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from mmengine.config import Config

from ..errors import UserError
from ..utils.settings import loader_settings, open_file, toolbox
from .option_check import check_names, check_values


def read_config(path: str, options: Mapping | None = None) -> Config:
    """Read a config and apply ``--cfg-options``.

    Args:
        path (str): Config file.
        options (Mapping, optional): ``{'train_dataloader.batch_size': 4}``.

    Raises:
        UserError: If it is not a file, or a setting would be ignored or
            misread silently.
    """
    cfg = open_file(path)
    if options:
        check_names(cfg, options)
        _drop_none(cfg, options)
        cfg.merge_from_dict(dict(options))
    check_values(cfg)
    if cfg.get('encoder'):
        from ..trained.use_encoder import use_encoder  # loads torch
        use_encoder(cfg)
    if cfg.get('teacher'):
        from ..trained.use_teacher import use_teacher
        use_teacher(cfg)
    defaults = {}
    if toolbox(cfg) == 'mmpretrain':  # mmdet's tools set no defaults
        import torch
        defaults = dict(
            pin_memory=torch.cuda.is_available(), persistent_workers=True,
            collate_fn=dict(type='default_collate'))
    for name in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        if isinstance(cfg.get(name), Mapping):
            cfg[name] = loader_settings({**defaults, **cfg[name]})
    return cfg


def apply_common_arguments(cfg: Config, args: Namespace) -> None:
    """Apply ``--launcher`` and ``--work-dir``."""
    cfg.launcher = args.launcher
    cfg.work_dir = args.work_dir or cfg.get('work_dir') or osp.join(
        'work_dirs', Path(args.config).stem)


def require_file(path: str, option: str) -> None:
    """Raise UserError, naming the option, unless a path is a file or URL."""
    if '://' not in path and not osp.isfile(path):
        raise UserError(f"checkpoint '{path}' ({option}) is not a file "
                        f"(looked in '{os.getcwd()}')")


def _drop_none(cfg: Config, options: Mapping) -> None:
    """Remove nested None where mmengine refuses to merge a dict into it."""
    for option, value in options.items():
        section, *names = option.split('.')
        node = cfg.get(section)
        for name in names if isinstance(value, dict) else names[:-1]:
            if not isinstance(node, Mapping):
                break
            if name in node and node[name] is None:
                node.pop(name)
            node = node.get(name)
