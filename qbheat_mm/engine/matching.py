# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Does a checkpoint fit a network? Names, shapes and values of tensors."""
import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

# BatchNorm's step counter is absent from old checkpoints and unused by a
# BatchNorm that has a momentum, so that its absence changes nothing.
_OPTIONAL = 'num_batches_tracked'
_SHOWN = 3


@dataclass(frozen=True)
class Mismatch:
    """What keeps a checkpoint from fitting a network; falsy if nothing does.

    Attributes:
        missing (list[str]): Tensors of the network that the file lacks.
        shapes (list[str]): ``'name: (2, 3) in the file, (4, 3) needed'``.
        extra (list[str]): Tensors of the file that the network lacks.
    """
    missing: list[str]
    shapes: list[str]
    extra: list[str]

    def __bool__(self) -> bool:
        return bool(self.missing or self.shapes or self.extra)

    def __str__(self) -> str:
        parts = []
        if self.missing:
            parts.append(f'{len(self.missing)} missing ({_few(self.missing)})')
        if self.shapes:
            parts.append(f'{len(self.shapes)} of another shape '
                         f'({_few(self.shapes)})')
        if self.extra:
            parts.append(f'{len(self.extra)} too many ({_few(self.extra)})')
        return ', '.join(parts)


def compare(network: Mapping[str, Tensor],
            found: Mapping[str, Tensor]) -> Mismatch:
    """Compare a network's tensors with those of a file by name and shape."""
    missing = [
        name for name in network
        if name not in found and not name.endswith(_OPTIONAL)
    ]
    shapes = [
        f'{name}: {tuple(found[name].shape)} in the file, '
        f'{tuple(tensor.shape)} needed' for name, tensor in network.items()
        if name in found and found[name].shape != tensor.shape
    ]
    extra = [name for name in found if name not in network]
    return Mismatch(missing, shapes, extra)


def find_prefix(names: Iterable[str], keys: Iterable[str]) -> str | None:
    """Find the prefix under which most of a network's names are stored.

    Args:
        names (Iterable[str]): The network's names, as ``'conv1.weight'``.
        keys (Iterable[str]): The file's names, as
            ``'module.backbone.conv1.weight'``.

    Returns:
        str | None: ``'module.backbone.'`` for these; ``''`` where the file
        holds the bare network; None where no name is found. Of equally
        frequent prefixes (a momentum encoder beside the encoder) one that
        ends with ``'backbone.'`` is taken, then the shortest.
    """
    names = set(names)
    votes: Counter = Counter()
    for key in keys:
        parts = key.split('.')
        for i in range(len(parts)):
            if '.'.join(parts[i:]) in names:
                votes['.'.join(parts[:i] + [''])] += 1
    if not votes:
        return None
    return max(votes, key=lambda prefix: (
        votes[prefix], prefix.endswith('backbone.'), -len(prefix)))


def non_finite(state_dict: Mapping[str, Tensor]) -> list[str]:
    """Names of the floating-point tensors that hold a NaN or an infinity."""
    return [
        name for name, tensor in state_dict.items()
        if tensor.is_floating_point() and not torch.isfinite(tensor).all()
    ]


def describe_backbone(checkpoint) -> str:
    """Name the backbone that a checkpoint of mmengine was trained with.

    The configuration inside a checkpoint is Python text. It is parsed and
    never run, since a file may come from anywhere.

    Args:
        checkpoint (Any): As loaded; it need not hold ``meta.cfg``.

    Returns:
        str: ``"MobileFormer(arch='mf-285m')"``, or ``''`` if unknown.
    """
    for key in ('meta', 'cfg'):
        checkpoint = (
            checkpoint.get(key) if isinstance(checkpoint, Mapping) else None)
    text = checkpoint
    try:
        tree = ast.parse(text if isinstance(text, str) else '')
    except SyntaxError:
        return ''
    for node in ast.walk(tree):
        if (isinstance(node, ast.keyword) and node.arg == 'backbone'
                and isinstance(node.value, ast.Call)):
            values = {
                item.arg: item.value.value
                for item in node.value.keywords
                if isinstance(item.value, ast.Constant)
            }
            known = ', '.join(f'{key}={values[key]!r}'
                              for key in ('arch', 'depth') if key in values)
            return f"{values.get('type', '')}({known})"
    return ''


def _few(names: list[str]) -> str:
    """The first few names, and that there are more."""
    more = ', ...' if len(names) > _SHOWN else ''
    return ', '.join(names[:_SHOWN]) + more
