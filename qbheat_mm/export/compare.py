# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How far an exported network may be from the original."""
from collections.abc import Mapping

from torch import Tensor

#: Of the largest value of an output.
TOLERANCE = 1e-3


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """Largest difference of two tensors over the largest expected value.

    Returns:
        float: inf if the shapes differ, NaN if a value is NaN.
    """
    if found.shape != expected.shape:
        return float('inf')
    found, expected = found.double(), expected.double()
    largest = expected.abs().max().clamp(min=1e-12)
    return ((found - expected).abs().max() / largest).item()


def largest_difference(found: Mapping[str, Tensor],
                       expected: Mapping[str, Tensor]) -> tuple[float, str]:
    """Difference and name of the worst output; NaN is the worst."""
    differences = {name: relative_difference(found[name], tensor)
                   for name, tensor in expected.items()}
    worst = max(differences, key=lambda name: (
        differences[name] != differences[name], differences[name]))
    return differences[worst], worst
