# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the linear models are worth: the loss without them."""
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ..models.layers.linear_extrapolation import LinearExtrapolation
from ..models.selfsup import QBHeat, QBHeatPredictor
from .matrices import evaluating, linear_models
from .reconstruction import trained_positions


@torch.no_grad()
def masked_loss(model: QBHeat, images: Tensor) -> float:
    """The model's own loss in evaluation, every position once.

    Args:
        model (QBHeat): Left as it was.
        images (Tensor): Normalized, (B, 3, H, W).

    Returns:
        float: Mean over the positions that the model is trained on.
    """
    losses = []
    with evaluating(model):
        for position in trained_positions(model):
            positions = [(position, len(images))]
            pred = model.predict_pixels(images, positions)
            losses.append(float(model.head.loss(
                pred, images, model.mask(images, positions))))
    return sum(losses) / len(losses)


def copied_loss(model: QBHeat, images: Tensor) -> float:
    """The same loss with A = B = 0: what is masked is a copy of the visible.

    The collapse solution of the heat equation, du/dx = du/dy = 0. Where it is
    as low as :func:`masked_loss`, the matrices have learned nothing that the
    decoder uses.
    """
    with copying(model.predictor):
        return masked_loss(model, images)


@contextmanager
def copying(predictor: QBHeatPredictor) -> Iterator[QBHeatPredictor]:
    """Set the matrices of a predictor to zero, and back bit by bit."""
    kept = [(linear.weight, linear.weight.data)
            for linear in linear_models(predictor).values()
            if isinstance(linear, LinearExtrapolation)]
    try:
        for weight, values in kept:
            weight.data = torch.zeros_like(values)
        yield predictor
    finally:
        for weight, values in kept:
            weight.data = values
