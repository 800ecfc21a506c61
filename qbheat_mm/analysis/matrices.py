# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The learned matrices of a predictor, by scale and direction."""
import torch
from torch import Tensor, nn

from ..models.selfsup.qbheat_predictor import (
    DIRECTIONS,
    LinearExtrapolation,
    QBHeatPredictor,
)

#: Scales and their step as a share of the image's side; the fine scale first,
#: as in the paper's tables.
SCALES = dict(quarter=1 / 4, half=1 / 2)


@torch.no_grad()
def learned_matrices(predictor: nn.Module) -> dict[str, dict[str, Tensor]]:
    """Return all matrices M of a predictor, explicit and derived.

    M includes the step: it is ``dx * A`` to the right and ``dy * B``
    downwards, and the prediction is ``z + M z``.

    Returns:
        dict[str, dict[str, Tensor]]: Scale and direction (``'right'`` ...)
        to (D, D), double precision, on the CPU. Empty for controls and
        predictors of other classes.
    """
    if not isinstance(predictor, QBHeatPredictor):
        return {}
    return {scale: _all_directions(linear)
            for scale, linear in predictor.linear_models().items()}


@torch.no_grad()
def derive(horizontal: Tensor, vertical: Tensor) -> dict[str, Tensor]:
    """Derive all eight directions from the matrices to the right and down.

    Appendix A.
    """
    linear = LinearExtrapolation(len(horizontal), num_models=2).double()
    linear.weight.copy_(torch.stack([horizontal, vertical]))
    return _all_directions(linear)


def _all_directions(linear: LinearExtrapolation) -> dict[str, Tensor]:
    return {name: linear.matrix(direction).detach().double().cpu()
            for name, direction in DIRECTIONS.items()}
