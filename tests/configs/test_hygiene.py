# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How the configurations are written, and what all of them share."""
import ast

import pytest

from .shipped import NAMES, ROOT, load


def bases(path):
    """The bases of our own that a configuration names."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == '_base_':
            found = ast.literal_eval(node.value)
            found = [found] if isinstance(found, str) else found
            return [(path.parent / base).resolve() for base in found
                    if '::' not in base]
    return []


def hops(path):
    return max((1 + hops(base) for base in bases(path)), default=0)


@pytest.mark.parametrize('name', NAMES)
def test_at_most_two_hops(name):
    assert 1 <= hops(ROOT / name) <= 2


def test_children_are_short():
    lengths = sorted(
        len((ROOT / name).read_text().splitlines()) for name in NAMES)
    assert lengths[len(lengths) * 3 // 4] <= 25
    assert lengths[-1] <= 45


@pytest.mark.parametrize('name', NAMES)
def test_runs_are_reproducible_and_kept_small(name):
    cfg = load(name)
    imports = cfg.custom_imports
    assert 'qbheat_mm' in imports.imports
    assert imports.allow_failed_imports is False
    hooks = cfg.default_hooks
    # 2,400 epochs must not fill a disk, and an epoch be lost at most.
    assert hooks.checkpoint.interval == 1
    assert hooks.checkpoint.max_keep_ckpts <= 3
    assert hooks.checkpoint.type == 'SafeCheckpointHook'
    for hook in ('StrictLoadHook', 'RandomStateHook', 'ResumeHook',
                 'StopOnNonFiniteLossHook'):
        assert hook in [h.type for h in hooks.values()], hook
    assert cfg.randomness.seed is not None
