# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Configurations as tables: the path of every value that mmengine resolves.

Elements of a list that have a type are called by it and not by their place,
so that `train_dataloader.dataset.pipeline.RandomFlip.prob` is the same value
whatever stands before the flip. The order has an entry of its own, the path
of the list.
"""
import functools
from collections import Counter

from mmengine.config import Config

from .shipped import ROOT, load

ALL = sorted(
    path.relative_to(ROOT).as_posix() for path in ROOT.rglob('*.py')
    if '_base_' not in path.relative_to(ROOT).parts)

# What a runner reads; other names at the top of a file are its variables.
READ = (
    'model', 'data_preprocessor', 'train_dataloader', 'val_dataloader',
    'test_dataloader', 'optim_wrapper', 'param_scheduler', 'auto_scale_lr',
    'train_cfg', 'val_cfg', 'test_cfg', 'val_evaluator', 'test_evaluator',
    'default_hooks', 'custom_hooks', 'load_from', 'resume', 'launcher',
    'env_cfg', 'randomness', 'log_processor', 'log_level', 'visualizer',
    'default_scope', 'custom_imports', 'tta_model', 'tta_pipeline',
    'runner_type', 'count_classes')
ORDER = ' > '
# How mmengine marks what comes from a base of another package.
MARKS = ('mmdet', 'mmpretrain')


def flatten(value, path=''):
    """Leaves of nested settings by their dotted paths.

    Args:
        value (dict | list | object): What a configuration holds.
        path (str): Where it stands.

    Returns:
        dict: Path to number, text, None, or list of those.
    """
    if isinstance(value, dict) and value:
        named = ((k, v) for k, v in value.items()
                 if k != '_scope_' or v not in MARKS)
    elif _typed(value):
        types = [item['type'] for item in value]
        leaves = {path: ORDER.join(map(str, types))}
        for name, item in zip(_numbered(types), value):
            inner = flatten(item, f'{path}.{name}')
            inner.pop(f'{path}.{name}.type')
            leaves |= inner
        return leaves
    elif _nested(value):
        named = ((str(i), item) for i, item in enumerate(value))
    else:
        return {path: _plain(value)}
    leaves = {}
    for name, item in named:
        leaves |= flatten(item, f'{path}.{name}' if path else name)
    return leaves


def _typed(value):
    """A list of parts, such as a pipeline or a list of schedules."""
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(
        isinstance(item, dict) and 'type' in item for item in value)


def _nested(value):
    """A list of pipelines, or of mixed content."""
    return isinstance(value, (list, tuple)) and any(
        isinstance(item, dict) or _typed(item) for item in value)


def _numbered(types):
    """Names that differ: `Resize`, `Resize#2`."""
    seen = Counter()
    for kind in types:
        seen[kind] += 1
        yield kind if seen[kind] == 1 else f'{kind}#{seen[kind]}'


def _plain(value):
    """Tuples as lists, for YAML knows no tuples."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, dict) else _scalar(value)


def _scalar(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def leaves_of(cfg):
    """What a runner reads of a resolved configuration, flat.

    Where the test part is the validation part, it is named once.
    """
    cfg = {k: v for k, v in cfg.to_dict().items() if k in READ}
    for part in ('dataloader', 'evaluator', 'cfg'):
        val, test = cfg.get(f'val_{part}'), cfg.get(f'test_{part}')
        if val and val == test:
            cfg[f'test_{part}'] = f'val_{part}'
    return flatten(cfg)


@functools.cache
def resolved(name):
    """The leaves of a shipped configuration, which are not to be changed."""
    return leaves_of(load(name))


@functools.cache
def cited(name):
    """The leaves of a recipe that is installed with mmdet or mmpretrain.

    Args:
        name (str): Such as `mmdet::detr/detr_r50_8xb2-150e_coco.py`.
    """
    return leaves_of(Config.fromfile(
        Config._get_cfg_path(name, '')[0], import_custom_modules=False))


def under(prefix, *tables, **values):
    """A table whose paths begin with a prefix.

    Args:
        prefix (str): Path of a dict.
        tables (dict): Values of longer paths below it.
        values: Values that stand in it.
    """
    return {f'{prefix}.{path}': value
            for table in (values, *tables) for path, value in table.items()}


def differences(name, table, leaves=None):
    """Lines that say where a configuration departs from a table.

    Args:
        name (str): Of a shipped configuration.
        table (dict): Path to value; the value None demands None or no value.
        leaves (dict, optional): To compare with instead of the configuration.

    Returns:
        list[str]: Empty if all is as the table says.
    """
    leaves = resolved(name) if leaves is None else leaves
    return [f'{name}: {path} is {leaves.get(path)!r}, not {wanted!r}'
            for path, wanted in table.items()
            if not _same(leaves.get(path), _plain(wanted))]


def departures(name, source):
    """What a configuration has otherwise than the recipe it is built on.

    Args:
        name (str): Of a shipped configuration.
        source (str): Of an installed recipe.

    Returns:
        dict: Path to the value of the configuration, None where it has none.
    """
    ours, theirs = resolved(name), cited(source)
    return {path: ours.get(path) for path in {**ours, **theirs}
            if not _same(ours.get(path), theirs.get(path))}


def _same(one, other):
    """Equal, and no truth value that equals a number."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def assert_tables(names, recipes):
    """That each configuration, and no other, has a table of its values."""
    wrong = sorted(set(names) ^ set(recipes))
    assert not wrong, (f'{wrong}: say in RECIPES of this file which values '
                       'it has to have, and where they come from')
