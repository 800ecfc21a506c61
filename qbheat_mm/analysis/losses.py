# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What are the linear models worth? The loss by direction, and without them.
"""
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ..models.layers.linear_extrapolation import DIRECTIONS
from ..models.selfsup import QBHeat, QBHeatPredictor
from ..models.selfsup.quarters import CENTER, CORNERS
from ..utils.modules import evaluating
from .matrices import linear_models
from .reconstruction import trained_positions

_NAMES = {step: name for name, step in DIRECTIONS.items()}


@torch.no_grad()
def masked_loss(model: QBHeat, images: Tensor) -> float:
    """Compute the model's loss in evaluation mode.

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
    """Compute the same loss with A = B = 0: masked features are copies.

    This is the collapse solution of the heat equation, du/dx = du/dy = 0.
    Where it is as low as :func:`masked_loss`, the matrices have learned
    nothing that the decoder uses.
    """
    with copying(model.predictor):
        return masked_loss(model, images)


@contextmanager
def copying(predictor: QBHeatPredictor) -> Iterator[QBHeatPredictor]:
    """Set the matrices of a predictor to zero for a while."""
    kept = [(linear.weight, linear.weight.data)
            for linear in linear_models(predictor).values()]
    try:
        for weight, values in kept:
            weight.data = torch.zeros_like(values)
        yield predictor
    finally:
        for weight, values in kept:
            weight.data = values


@torch.no_grad()
def direction_losses(model: QBHeat, images: Tensor) -> dict[str, float]:
    """Compute the model's loss, direction by direction.

    Each position that the model was trained on is predicted once; a direction
    that several corners share gets their mean. The three directions of a
    corner cover equally many patches; of the center, a side covers twice as
    many as a diagonal.

    Args:
        model (QBHeat): With encoder, predictor and decoder.
        images (Tensor): Normalized images, (B, 3, H, W).

    Returns:
        dict[str, float]: ``'half/right'`` ... and ``'quarter/left_up'`` ...
    """
    losses = defaultdict(list)
    height, width = (n // model.head.patch_size for n in images.shape[2:])
    with evaluating(model):
        for position in trained_positions(model):
            pred = model.predict_pixels(images, [(position, len(images))])
            for (scale, name), region in direction_regions(
                    position, height, width).items():
                mask = region.flatten().to(pred).expand(len(images), -1)
                losses[f'{scale}/{name}'].append(
                    float(model.head.loss(pred, images, mask)))
    return {name: sum(found) / len(found) for name, found in losses.items()}


def direction_regions(position: str, height: int,
                      width: int) -> dict[tuple[str, str], Tensor]:
    """Find the masked patches that are predicted along each direction.

    Args:
        position (str): Of the visible quarter.
        height (int): Rows of patches.
        width (int): Columns of patches.

    Returns:
        dict[tuple[str, str], Tensor]: Scale and direction, such as
        ``('half', 'right')``, to the region, (height, width), 1 or 0.
    """
    rows = _steps(position, height, axis=1)
    columns = _steps(position, width, axis=0)
    scale = 'quarter' if position == CENTER else 'half'
    return {
        (scale, name):
        ((rows == step_y)[:, None] & (columns == step_x)[None]).float()
        for (step_x, step_y), name in _NAMES.items()
        if (rows == step_y).any() and (columns == step_x).any()
    }


def _steps(position: str, length: int, axis: int) -> Tensor:
    """Sign of the step that reaches each row or column."""
    index = torch.arange(length)
    if position == CENTER:
        return (index >= length * 3 // 4).int() - (index < length // 4).int()
    far = CORNERS[position][axis]
    outside = (index >= length // 2) != bool(far)
    return outside.int() * (1 - 2 * far)
