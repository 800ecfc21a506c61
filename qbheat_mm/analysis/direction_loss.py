# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The loss of each direction of prediction, at each scale."""
from collections import defaultdict

import torch
from torch import Tensor

from ..models.layers.linear_extrapolation import DIRECTIONS
from ..models.selfsup import QBHeat
from ..models.selfsup.quarters import CENTER, CORNERS
from .matrices import evaluating
from .reconstruction import trained_positions

_NAMES = {step: name for name, step in DIRECTIONS.items()}


def direction_regions(position: str, height: int,
                      width: int) -> dict[tuple[str, str], Tensor]:
    """Which masked patches are predicted along which direction.

    Args:
        position (str): Of the visible quarter.
        height (int): Rows of patches.
        width (int): Columns of patches.

    Returns:
        dict[tuple[str, str], Tensor]: Scale and direction, as
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
    """Sign of the step by which each row or column is reached."""
    index = torch.arange(length)
    if position == CENTER:
        return (index >= length * 3 // 4).int() - (index < length // 4).int()
    far = CORNERS[position][axis]
    outside = (index >= length // 2) != bool(far)
    return outside.int() * (1 - 2 * far)


@torch.no_grad()
def direction_losses(model: QBHeat, images: Tensor) -> dict[str, float]:
    """The model's own loss, direction by direction.

    Each position that the model was trained on is predicted once; a direction
    that several corners share gets their mean. Three directions of a corner
    cover equally many patches; of the center, where a side is predicted from
    two sub-blocks, a side covers twice as many as a diagonal.

    Args:
        model (QBHeat): With encoder, predictor and decoder.
        images (Tensor): Normalized images, (B, 3, H, W).

    Returns:
        dict[str, float]: ``'half/right'`` ... and ``'quarter/left_up'`` ...
    """
    losses = defaultdict(list)
    patch = model.head.patch_size
    height, width = (n // patch for n in images.shape[2:])
    with evaluating(model):
        for position in trained_positions(model):
            pred = model.predict_pixels(images, [(position, len(images))])
            for (scale, name), region in direction_regions(
                    position, height, width).items():
                mask = region.flatten().to(pred).expand(len(images), -1)
                losses[f'{scale}/{name}'].append(
                    float(model.head.loss(pred, images, mask)))
    return {name: sum(found) / len(found) for name, found in losses.items()}
