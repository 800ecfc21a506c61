# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From a configuration file and arguments to what the runner gets."""
import difflib
import inspect
import os
import os.path as osp
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping

import torch
from mmengine.config import Config, ConfigDict
from mmengine.runner import Runner

from ..errors import UserError
from ..utils.loaders import loader_settings
from .explain import describe
from .setting_names import find_unread
from .setting_values import find_wrong
from .toolbox import toolbox

# Settings that mmengine reads from a configuration beside the arguments of
# its runner.
_EXTRA_SETTINGS = ('activation_checkpointing', 'compile',
                   'efficient_conv_bn_eval', 'find_unused_parameters',
                   'gpu_decode', 'model_wrapper_cfg', 'runner_type', 'sync_bn',
                   'work_dir')
# What our tools read beside them.
_OF_TOOLS = ('count_classes', 'tta_model', 'tta_pipeline')
#: Set to 1 to go on with settings that are thought to be wrong.
UNCHECKED = 'QBHEAT_UNCHECKED_SETTINGS'
LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def read_config(path: str,
                options: dict | None = None,
                origin: str = '--cfg-options') -> Config:
    """Read a configuration and replace settings by those of the user.

    Args:
        path (str): Configuration file.
        options (dict, optional): ``{'train_dataloader.batch_size': 4}``.
        origin (str): What gave the options, for messages.

    Raises:
        UserError: If the file does not exist or run, an option does not fit,
            a value is impossible, or nothing reads a name.
    """
    cfg = parse_config(path)
    if toolbox(cfg) == 'mmpretrain':
        _set_loader_defaults(cfg)
    if options:
        _check_names(path, cfg, options, origin)
        _make_room(cfg, options)
        try:
            cfg.merge_from_dict(options)
        except (KeyError, TypeError, ValueError, IndexError,
                AttributeError) as error:
            raise UserError(f'{origin} {_written(options)} does not fit '
                            f"'{path}': {error}") from error
    if os.environ.get(UNCHECKED) != '1':
        check_settings(cfg, path, options or {}, origin)
    for name in LOADERS:
        if isinstance(cfg.get(name), Mapping):
            cfg[name] = loader_settings(cfg[name])
    return cfg


def check_settings(cfg: Config,
                   path: str,
                   options: dict,
                   origin: str = '--cfg-options') -> None:
    """Look for wrong values, and for names that nothing reads.

    Args:
        cfg (Config): The configuration with the options.
        path (str): Its file, for messages.
        options (dict): What the user has set.
        origin (str): By what, for messages.

    Raises:
        UserError: Naming the first setting that is wrong.
    """
    found = find_wrong(cfg) or [
        str(name) for name in find_unread(cfg)
        if name.sure or _given(name.setting, options)]
    if not found:
        return
    given = _given(re.split('[=:]', found[0])[0], options)
    origin = origin if given else f"configuration '{path}':"
    more = f' (and {len(found) - 1} more)' if len(found) > 1 else ''
    raise UserError(f'{origin} {found[0]}{more} ({UNCHECKED}=1 skips this '
                    'check of the settings)')


def require_parts(cfg: Config, *names: str) -> None:
    """Raise where a configuration is not for what a tool does.

    Raises:
        UserError: Naming the settings that are absent.
    """
    absent = [name for name in names if cfg.get(name) is None]
    if absent:
        raise UserError(f"'{cfg.filename}' sets no {', no '.join(absent)}: "
                        'is it a configuration for something else?')


def apply_common_arguments(cfg: Config, args: Namespace) -> None:
    """Set the launcher and the work folder in ``cfg``."""
    cfg.launcher = args.launcher
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get('work_dir') is None:
        name = osp.splitext(osp.basename(args.config))[0]
        cfg.work_dir = osp.join('work_dirs', name)


def require_file(path: str, option: str) -> None:
    """Raise if ``path`` is neither a file nor an address.

    Raises:
        UserError: Naming the argument that gave the path.
    """
    if '://' in path or osp.isfile(path):
        return
    if osp.isdir(path):
        raise UserError(f"checkpoint '{path}' ({option}) is a folder: give a "
                        'file in it, as FOLDER/epoch_N.pth')
    raise UserError(f"checkpoint '{path}' ({option}) does not exist: the "
                    f"path is taken from '{os.getcwd()}'")


def _given(setting: str, options: dict) -> bool:
    """Whether the user has set a setting or a part of it."""
    return any(f'{setting}.'.startswith(f'{option}.')
               or f'{option}.'.startswith(f'{setting}.')
               for option in options)


def parse_config(path: str) -> Config:
    """Run a configuration file and those that it inherits from.

    Raises:
        UserError: If there is no such file, or it does not run.
    """
    if osp.isdir(path):
        raise UserError(f"configuration '{path}' is a folder: give a file in "
                        'it, as FOLDER/NAME.py')
    if not osp.isfile(path):
        raise UserError(f"configuration '{path}' does not exist: the path is "
                        f"taken from '{os.getcwd()}'")
    try:
        cfg = Config.fromfile(path)
        cfg.get('model')
    # The file is code: it may raise anything.
    except Exception as error:
        reason = describe(error)
        if isinstance(error, RecursionError):
            reason = 'it inherits from itself by its _base_'
        elif isinstance(error, UnicodeDecodeError) or 'U+FEFF' in reason:
            reason += ': save it as UTF-8, without a byte order mark'
        raise UserError(f"configuration '{path}' cannot be read: {reason}"
                        ) from error
    return cfg


def _check_names(path: str, cfg: Config, options: dict,
                 origin: str) -> None:
    """Refuse options whose first name nothing would read."""
    read = {*_EXTRA_SETTINGS, *_OF_TOOLS,
            *inspect.signature(Runner.__init__).parameters}
    known = read | set(cfg.keys())
    for option in options:
        name = option.split('.')[0]
        if name in ('_base_', 'custom_imports'):
            raise UserError(f'{origin} {option}: {name} is used while '
                            f"'{path}' is read: write it in the file")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else (
                'run the command with names that the file or its bases set')
            raise UserError(f"{origin} {option}: '{path}' has no "
                            f"setting '{name}'; {hint}")
        if name not in read and os.environ.get(UNCHECKED) != '1':
            same = [place for place in _places(cfg.to_dict(), name)
                    if place != name]
            more = f', or set {", ".join(same[:3])}' if same else ''
            raise UserError(
                f"{origin} {option}: '{path}' makes other settings of "
                f"'{name}' while it is read, and nothing reads it "
                f'afterwards: write it in the file{more} ({UNCHECKED}=1 '
                'skips this check)')


def _places(settings, name: str) -> Iterator[str]:
    """Where a name stands among nested settings, as 'model.backbone.type'."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            if key == name:
                yield name
            for place in _places(value, name):
                yield f'{key}.{place}'


def _written(options: dict) -> str:
    return ' '.join(f'{key}={value}' for key, value in options.items())


def _set_loader_defaults(cfg: Config) -> None:
    """Give mmpretrain's loaders what its own tools give them."""
    for name in LOADERS:
        if isinstance(cfg.get(name), Mapping):
            defaults = ConfigDict(
                pin_memory=torch.cuda.is_available(),
                persistent_workers=True,
                collate_fn=dict(type='default_collate'))
            defaults.update(cfg[name])
            cfg[name] = defaults


def _make_room(cfg: Config, options: dict) -> None:
    """Let a setting below one that is None be set, as below one unset.

    A whole section, as ``test_dataloader``, stays None.
    """
    for option, value in options.items():
        section, *names = option.split('.')
        node = cfg.get(section)
        for name in names if isinstance(value, dict) else names[:-1]:
            if not isinstance(node, Mapping):
                break
            if name in node and node[name] is None:
                node.pop(name)
            node = node.get(name)
