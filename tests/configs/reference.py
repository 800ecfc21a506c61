# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The reviewed values of all configs, in `tests/data/recipes`.

One file per folder and model has the values shared by all configs and those
of each, by dotted paths. List elements with a type are named by it, as in
`train_dataloader.dataset.pipeline.RandomFlip.prob`; the value of the list's
own path is their order. `make recipes` rewrites them; review the diff.
"""
import functools
from collections import Counter, defaultdict
from pathlib import Path

import yaml

from ..helpers.shipped import DEMOS, NAMES, load

FOLDER = Path(__file__).parents[1] / 'data/recipes'
ALL = sorted([*NAMES, *DEMOS])

# What a runner reads; other top-level names are variables.
READ = (
    'model', 'data_preprocessor', 'train_dataloader', 'val_dataloader',
    'test_dataloader', 'optim_wrapper', 'param_scheduler', 'auto_scale_lr',
    'train_cfg', 'val_cfg', 'test_cfg', 'val_evaluator', 'test_evaluator',
    'default_hooks', 'custom_hooks', 'load_from', 'resume', 'launcher',
    'env_cfg', 'randomness', 'log_processor', 'log_level', 'visualizer',
    'default_scope', 'custom_imports', 'tta_model', 'tta_pipeline',
    'runner_type', 'count_classes')
ORDER = ' > '
# Scopes that mmengine adds to bases of other packages.
MARKS = ('mmdet', 'mmpretrain')


def flatten(value, path=''):
    """Map the dotted paths below ``path`` to plain values or lists."""
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
    """Whether it is a list of parts, such as a pipeline."""
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(
        isinstance(item, dict) and 'type' in item for item in value)


def _nested(value):
    """Whether it is a list of pipelines, or of mixed content."""
    return isinstance(value, (list, tuple)) and any(
        isinstance(item, dict) or _typed(item) for item in value)


def _numbered(types):
    """Yield distinct names: `Resize`, `Resize#2`."""
    seen = Counter()
    for kind in types:
        seen[kind] += 1
        yield kind if seen[kind] == 1 else f'{kind}#{seen[kind]}'


def _plain(value):
    """Return tuples as lists and objects as text, for YAML."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str, dict)):
        return value
    return str(value)


def leaves_of(cfg):
    """Flatten what a runner reads; test parts may refer to val parts."""
    cfg = {k: v for k, v in cfg.to_dict().items() if k in READ}
    for part in ('dataloader', 'evaluator', 'cfg'):
        val, test = cfg.get(f'val_{part}'), cfg.get(f'test_{part}')
        if val and val == test:
            cfg[f'test_{part}'] = f'val_{part}'
    return flatten(cfg)


@functools.cache
def resolved(name):
    """The leaves of a shipped config; do not modify."""
    return leaves_of(load(name))


def families():
    """Map each reference file to the names of its configs."""
    found = defaultdict(list)
    for name in ALL:
        model = resolved(name)['model.type']
        found[FOLDER / Path(name).parent / f'{model}.yml'].append(name)
    return found


def shared_leaves(names):
    """The leaves that are equal in all configs."""
    shared = dict(resolved(names[0]))
    for name in names[1:]:
        other = resolved(name)
        for path, value in [*shared.items()]:
            if path not in other or other[path] != value:
                del shared[path]
    return shared


def read():
    """Map each config to its reviewed values."""
    leaves = {}
    for file in FOLDER.rglob('*.yml'):
        content = yaml.safe_load(file.read_text())
        for name, own in content['each'].items():
            leaves[name] = content['all'] | own
    return leaves


def write():
    """Write the current values."""
    for file in FOLDER.rglob('*.yml'):
        file.unlink()
    for file, names in families().items():
        shared = shared_leaves(names)
        each = {}
        for name in names:
            each[name] = {path: value for path, value in resolved(name).items()
                          if path not in shared}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(
            dict(all=shared, each=each), default_flow_style=None, width=79))


def test_write():
    """What `make recipes` runs, as pytest resolves relative imports."""
    write()
