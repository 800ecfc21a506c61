# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The weights of a checkpoint: which there are, and are they numbers?"""
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import UserError

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def named_weights(checkpoint: Any) -> dict[str, Any]:
    """The named values of a checkpoint, without a wrapper's prefix.

    Args:
        checkpoint (Any): As loaded: a state_dict, or one under
            ``'state_dict'``.

    Returns:
        dict[str, Any]: Most are tensors; empty if there are no names.
    """
    if isinstance(checkpoint, Mapping):
        checkpoint = checkpoint.get('state_dict', checkpoint)
    if not isinstance(checkpoint, Mapping):
        return {}
    return {
        name.removeprefix('module.'): value
        for name, value in checkpoint.items() if isinstance(name, str)
    }


def unlike(value: Any, needed: Tensor) -> str | None:
    """In which way a value of a file is not of the kind of a tensor.

    torch copies whole numbers, truth values and complex numbers into a
    network's floating-point tensors, and mmengine leaves those random for
    which a file holds something else.

    Args:
        value (Any): As found in a checkpoint.
        needed (Tensor): The network's tensor of that name; it may be on the
            meta device, since its values do not matter.

    Returns:
        str | None: ``'a sparse tensor'``, ``'int8 in the file, float32
        needed'``; None if they are alike.
    """
    if not isinstance(value, Tensor):
        return f'a {type(value).__module__}.{type(value).__name__}'.replace(
            ' builtins.', ' ')
    if torch.nn.parameter.is_lazy(value) or value.is_meta:
        return 'a tensor without values'
    if value.is_nested or value.layout != needed.layout:
        return 'a nested tensor' if value.is_nested else 'a sparse tensor'
    if value.dtype == needed.dtype or any(
            value.dtype in kind and needed.dtype in kind
            for kind in (_FLOATS, _INTEGERS)):
        return None
    return (f'{_short(value.dtype)} in the file, {_short(needed.dtype)} '
            'needed')


def impossible(weights: Mapping[str, Any]) -> list[str]:
    """Names of the tensors with values that no sound network has.

    These are NaN, infinities, also such as arise when the value is brought
    to float32, and negative variances of a BatchNorm.

    Args:
        weights (Mapping[str, Any]): What is no dense floating-point tensor
            is passed over.
    """
    return [
        name for name, value in weights.items()
        if isinstance(value, Tensor) and value.dtype in _FLOATS
        and value.layout == torch.strided and not value.is_meta
        and not _possible(name, value)
    ]


def require_possible(weights: Mapping[str, Any], checkpoint: str,
                     part: str = '') -> None:
    """Raise if weights hold impossible values.

    Args:
        weights (Mapping[str, Any]): Names and tensors.
        checkpoint (str): The file, for the message.
        part (str): What they are part of, as ``'of the encoder'``.

    Raises:
        UserError: Naming the first of them.
    """
    broken = impossible(weights)
    if broken:
        part = f' {part}' if part else ''
        raise UserError(
            f"checkpoint '{checkpoint}' holds NaN or infinite values, or "
            f'negative variances, in {len(broken)} tensors{part} '
            f'({few(broken)}): the run that wrote it diverged; take an '
            'earlier checkpoint')


def few(names: Iterable[str], shown: int = 3) -> str:
    """The first few names, and that there are more."""
    names = list(names)
    more = ', ...' if len(names) > shown else ''
    return ', '.join(names[:shown]) + more


def _possible(name: str, value: Tensor) -> bool:
    value = value.float()
    return bool(torch.isfinite(value).all()) and not (
        name.endswith('running_var') and bool((value < 0).any()))


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix('torch.')
