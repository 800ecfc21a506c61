# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How far an exported network may be from the one it was made of."""
from collections.abc import Mapping

from torch import Tensor

#: Of the largest value of an output.
TOLERANCE = 1e-3


def relative_difference(found: Tensor, wanted: Tensor) -> float:
    """Largest difference of two tensors over the largest wanted value.

    Returns:
        float: inf where the shapes differ, NaN where a value is none.
    """
    if found.shape != wanted.shape:
        return float('inf')
    found, wanted = found.double(), wanted.double()
    largest = wanted.abs().max().clamp(min=1e-12)
    return ((found - wanted).abs().max() / largest).item()


def largest_difference(found: Mapping[str, Tensor],
                       wanted: Mapping[str, Tensor]) -> tuple[float, str]:
    """The worst output.

    Returns:
        tuple[float, str]: See :func:`relative_difference`, and its name.
    """
    differences = {name: relative_difference(found[name], tensor)
                   for name, tensor in wanted.items()}
    # NaN is larger than nothing; it is what to tell first.
    worst = max(differences, key=lambda name: (
        differences[name] != differences[name], differences[name]))
    return differences[worst], worst
