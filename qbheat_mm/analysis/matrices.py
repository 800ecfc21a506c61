# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The matrices that a predictor has learned, by scale and direction."""
import torch
from torch import Tensor, nn

from ..models.layers.linear_extrapolation import (
    DIRECTIONS,
    LinearExtrapolation,
)
from ..models.selfsup import QBHeatPredictor
from ..utils.modules import evaluating  # noqa: F401

#: Name of a scale: the predictor's module, and its step as a share of the
#: image's side. The fine scale first, as in the paper's tables.
SCALES = dict(quarter=('quarter_step', 1 / 4), half=('half_step', 1 / 2))


def linear_models(predictor: QBHeatPredictor) -> dict[str, nn.Module]:
    """The :class:`LinearExtrapolation` of each scale that was trained.

    Returns:
        dict[str, LinearExtrapolation]: Of ``'quarter'`` and ``'half'`` those
        that ``position`` of the predictor uses; none of a control, which
        has no matrices.
    """
    steps = {scale: getattr(predictor, name, None)
             for scale, (name, _) in SCALES.items()}
    return {scale: step for scale, step in steps.items()
            if isinstance(step, LinearExtrapolation)}


@torch.no_grad()
def learned_matrices(
        predictor: QBHeatPredictor) -> dict[str, dict[str, Tensor]]:
    """All matrices M of a predictor, explicit and derived.

    The step is a part of M: ``M = dx * A`` to the right and ``M = dy * B``
    downwards, where the prediction is ``z + M z``.

    Returns:
        dict[str, dict[str, Tensor]]: Scale, then direction (``'right'`` ...),
        to (D, D) in double precision on the CPU.
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
    """What two explicit models make of the other six directions.

    Args:
        horizontal (Tensor): The matrix to the right, (D, D).
        vertical (Tensor): The matrix downwards, (D, D).

    Returns:
        dict[str, Tensor]: All eight directions ("Derivation of Implicit
        Linear Models", appendix).
    """
    linear = LinearExtrapolation(len(horizontal), num_models=2)
    linear.to(horizontal)
    linear.weight.copy_(torch.stack([horizontal, vertical]))
    return {
        name: linear.matrix(direction)
        for name, direction in DIRECTIONS.items()
    }
