# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compare the tensors of a checkpoint with those of a network."""
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

# Old checkpoints lack BatchNorm's step counter, and nothing reads it.
_OPTIONAL = 'num_batches_tracked'


def mismatch(needed: Mapping[str, Tensor], found: Mapping[str, Any]) -> str:
    """Describe why weights don't fit a network.

    Args:
        needed (Mapping[str, Tensor]): Tensors of the network.
        found (Mapping[str, Any]): Values from a checkpoint.

    Returns:
        str: E.g. ``'2 tensors are missing (a, b)'``; empty if they fit.
    """
    missing, wrong, extra = [], [], []
    for name, tensor in needed.items():
        if name in found:
            problem = _problem(name, found[name], tensor)
            if problem:
                wrong.append(f'{name}: {problem}')
        elif not name.endswith(_OPTIONAL):
            missing.append(name)
    for name, value in found.items():
        if name not in needed and isinstance(value, Tensor):
            extra.append(name)
    problems = []
    for names, what in ((missing, 'are missing'), (wrong, 'do not fit'),
                        (extra, 'are not part of it')):
        if names:
            problems.append(f'{len(names)} tensors {what} ({few(names)})')
    return ', '.join(problems)


def _problem(name: str, value: Any, needed: Tensor) -> str:
    if not isinstance(value, Tensor) or value.is_meta or (
            value.layout != torch.strided) or value.is_nested:
        return 'not a dense tensor'
    if value.is_floating_point() != needed.is_floating_point():
        return f'{value.dtype}, not {needed.dtype}'
    if value.shape != needed.shape:
        return f'shape {tuple(value.shape)}, not {tuple(needed.shape)}'
    if non_finite({name: value}):
        return 'NaN, infinite or a negative variance'
    return ''


def non_finite(tensors: Mapping[str, Any]) -> list[str]:
    """Names of tensors with NaN, infinite values or negative variances."""
    names = []
    for name, value in tensors.items():
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        negative = name.endswith('running_var') and (value < 0).any()
        if negative or not value.float().isfinite().all():
            names.append(name)
    return names


def few(names: Iterable[str], shown: int = 3) -> str:
    """Join the first few names."""
    names = list(names)
    more = [] if len(names) <= shown else ['...']
    return ', '.join(names[:shown] + more)
