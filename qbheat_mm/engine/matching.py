# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Does a checkpoint fit a network? Names, kinds and shapes of tensors."""
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .weights import few, unlike

# BatchNorm's step counter is absent from old checkpoints and unused by a
# BatchNorm that has a momentum, so that its absence changes nothing.
_OPTIONAL = 'num_batches_tracked'


@dataclass(frozen=True)
class Mismatch:
    """What keeps a checkpoint from fitting a network; falsy if nothing does.

    Attributes:
        missing (list[str]): Tensors of the network that the file lacks.
        kinds (dict[str, str]): What would not be loaded, or as something
            else: names and ``'a sparse tensor'``.
        shapes (dict[str, str]): Names and ``'(2, 3) in the file, (4, 3)
            needed'``.
        extra (list[str]): Tensors of the file that the network lacks.
    """
    missing: list[str]
    kinds: dict[str, str]
    shapes: dict[str, str]
    extra: list[str]

    def __bool__(self) -> bool:
        return bool(self.missing or self.kinds or self.shapes or self.extra)

    def __str__(self) -> str:
        listed = {
            'missing': self.missing,
            'of another kind': _pairs(self.kinds),
            'of another shape': _pairs(self.shapes),
            'too many': self.extra
        }
        return ', '.join(f'{len(names)} {what} ({few(names)})'
                         for what, names in listed.items() if names)

    def without(self, allowed: tuple[str, ...],
                needed: tuple[str, ...] = ()) -> 'Mismatch':
        """Leave out what may be missing or of another shape.

        Args:
            allowed (tuple[str, ...]): Beginnings of such names.
            needed (tuple[str, ...]): Beginnings of names for which this does
                not hold.
        """

        def counts(name: str) -> bool:
            return name.startswith(needed) or not name.startswith(allowed)

        return Mismatch(
            list(filter(counts, self.missing)), self.kinds,
            {name: text for name, text in self.shapes.items()
             if counts(name)}, self.extra)


def compare(network: Mapping[str, Tensor],
            found: Mapping[str, Any]) -> Mismatch:
    """Compare a network's tensors with what a file has under their names."""
    missing = [
        name for name in network
        if name not in found and not name.endswith(_OPTIONAL)
    ]
    common = {name: network[name] for name in network if name in found}
    kinds = {
        name: kind for name, tensor in common.items()
        if (kind := unlike(found[name], tensor)) is not None
    }
    shapes = {
        name: f'{tuple(found[name].shape)} in the file, '
        f'{tuple(tensor.shape)} needed' for name, tensor in common.items()
        if name not in kinds and found[name].shape != tensor.shape
    }
    extra = [name for name, value in found.items()
             if name not in network and isinstance(value, Tensor)]
    return Mismatch(missing, kinds, shapes, extra)


def parts_of(names: Iterable[str], network: Iterable[str]) -> list[str]:
    """The largest parts of a network that hold nothing but given names.

    Args:
        names (Iterable[str]): Names of tensors, as ``'head.fc.bias'``.
        network (Iterable[str]): The names of all.

    Returns:
        list[str]: Beginnings of names, as ``['head.fc.']``.
    """
    names = set(names)
    others = [name for name in network
              if name not in names and not name.endswith(_OPTIONAL)]
    parts = []
    for name in names:
        ends = [i + 1 for i, sign in enumerate(name) if sign == '.']
        parts.append(next(
            (name[:end] for end in ends
             if not any(other.startswith(name[:end]) for other in others)),
            name))
    return sorted(set(parts))


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


def _pairs(texts: Mapping[str, str]) -> list[str]:
    return [f'{name}: {text}' for name, text in texts.items()]
