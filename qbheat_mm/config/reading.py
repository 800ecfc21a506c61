# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read configs, apply ``--cfg-options``, and complete them."""
import copy
import os
from collections.abc import Mapping

from mmengine.config import Config

from ..errors import UserError
from .complete import complete
from .model_index import find_config
from .options import check_names, check_values


def read_config(path: str, options: Mapping | None = None) -> Config:
    """Read a config, apply ``--cfg-options``, check and complete it.

    Args:
        path (str): Config file.
        options (Mapping, optional): ``{'train_dataloader.batch_size': 4}``.

    Raises:
        UserError: If it is not a file, or a setting would be ignored or
            misread silently.
    """
    cfg = _read(path)
    if options:
        check_names(cfg, options)
        _drop_none(cfg, options)
        cfg.merge_from_dict(dict(options))
    check_values(cfg)
    complete(cfg)
    return cfg


def open_config(config: str | os.PathLike | Config) -> Config:
    """Complete a config, a config file, or one of ours by its name."""
    if isinstance(config, Config):
        cfg = copy.deepcopy(config)
    else:
        config = os.fspath(config)
        cfg = _read(find_config(config) or config)
    complete(cfg)
    return cfg


def _read(path: str) -> Config:
    """Read a config file; opening a pipe would block."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"config '{path}' is not a file")
    return Config.fromfile(path)


def _drop_none(cfg: Config, options: Mapping) -> None:
    """Remove nested None where mmengine refuses to merge a dict into it."""
    for option, value in options.items():
        section, *names = option.split('.')
        if not isinstance(value, dict):
            names = names[:-1]
        node = cfg.get(section)
        for name in names:
            if not isinstance(node, Mapping):
                break
            if name in node and node[name] is None:
                node.pop(name)
            node = node.get(name)
