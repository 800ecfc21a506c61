# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The matrices that a predictor has learned, by scale and direction."""
import torch
from torch import Tensor

from ..models.layers.linear_extrapolation import (
    DIRECTIONS,
    LinearExtrapolation,
)
from ..models.selfsup import QBHeatPredictor

#: Scale to the predictor's module and its step as a share of the image's
#: side; the fine scale first, as in the paper's tables.
SCALES = dict(quarter=('quarter_step', 1 / 4), half=('half_step', 1 / 2))


def linear_models(
        predictor: QBHeatPredictor) -> dict[str, LinearExtrapolation]:
    """Return the trained :class:`LinearExtrapolation` of each scale.

    Returns:
        dict[str, LinearExtrapolation]: ``'quarter'`` and ``'half'``, as far
        as the predictor's ``position`` uses them; empty for a control, which
        has no matrices.
    """
    steps = {scale: getattr(predictor, name, None)
             for scale, (name, _) in SCALES.items()}
    return {scale: step for scale, step in steps.items()
            if isinstance(step, LinearExtrapolation)}


@torch.no_grad()
def learned_matrices(
        predictor: QBHeatPredictor) -> dict[str, dict[str, Tensor]]:
    """Return all matrices M of a predictor, explicit and derived.

    The step is a part of M: ``M = dx * A`` to the right and ``M = dy * B``
    downwards, where the prediction is ``z + M z``.

    Returns:
        dict[str, dict[str, Tensor]]: Scale, then direction (``'right'`` ...),
        to (D, D), double precision, on the CPU.
    """
    return {
        scale: {
            name: linear.matrix(direction).detach().double().cpu()
            for name, direction in DIRECTIONS.items()
        }
        for scale, linear in linear_models(predictor).items()
    }


@torch.no_grad()
def derive(horizontal: Tensor, vertical: Tensor) -> dict[str, Tensor]:
    """Derive all eight directions from two explicit matrices.

    Appendix "Derivation of Implicit Linear Models".

    Args:
        horizontal (Tensor): The matrix to the right, (D, D).
        vertical (Tensor): The matrix downwards, (D, D).
    """
    linear = LinearExtrapolation(len(horizontal), num_models=2)
    linear.to(horizontal)
    linear.weight.copy_(torch.stack([horizontal, vertical]))
    return {
        name: linear.matrix(direction)
        for name, direction in DIRECTIONS.items()
    }
