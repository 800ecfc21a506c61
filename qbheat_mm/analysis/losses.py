# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The pre-training loss by direction, and without the linear models."""
import copy
from collections import defaultdict
from statistics import fmean

import torch
from torch import Tensor, nn

from ..models.selfsup import QBHeat
from ..models.selfsup.qbheat_predictor import DIRECTIONS
from ..models.selfsup.quarters import CENTER, quarter_offset
from ..utils.modules import evaluating
from .reconstruction import trained_positions


@torch.no_grad()
def masked_loss(model: QBHeat, images: Tensor) -> float:
    """Compute the mean loss over all trained positions in evaluation mode.

    Args:
        model (QBHeat): Left unchanged.
        images (Tensor): Normalized, (B, 3, H, W).
    """
    losses = []
    with evaluating(model):
        for position in trained_positions(model):
            positions = [(position, len(images))]
            losses.append(float(model.head.loss(
                model.predict_pixels(images, positions), images,
                model.mask(images, positions))))
    return fmean(losses)


def copied_loss(model: QBHeat, images: Tensor) -> float:
    """Compute the same loss with A = B = 0, so that features are copied.

    This is the collapse solution of the heat equation, du/dx = du/dy = 0. If
    the loss is as low as :func:`masked_loss`, the decoder does not use what
    the matrices have learned.
    """
    model = copy.deepcopy(model)
    for linear in model.predictor.linear_models().values():
        nn.init.zeros_(linear.weight)
    return masked_loss(model, images)


@torch.no_grad()
def direction_losses(model: QBHeat, images: Tensor) -> dict[str, float]:
    """Compute the pre-training loss of each direction.

    A direction that several corners share gets their mean. The three
    directions of a corner cover equally many patches; around the center, a
    side covers twice as many as a diagonal.

    Returns:
        dict[str, float]: ``'half_right'`` ... and ``'quarter_left_up'`` ...
    """
    losses = defaultdict(list)
    height, width = images.shape[2:]
    patch = model.head.patch_size
    grid = height // patch, width // patch
    with evaluating(model):
        for position in trained_positions(model):
            scale = 'quarter' if position == CENTER else 'half'
            pred = model.predict_pixels(images, [(position, len(images))])
            for name, region in direction_regions(position, *grid).items():
                mask = region.flatten().to(pred).expand(len(images), -1)
                losses[f'{scale}_{name}'].append(
                    float(model.head.loss(pred, images, mask)))
    return {name: fmean(values) for name, values in losses.items()}


def direction_regions(position: str, height: int,
                      width: int) -> dict[str, Tensor]:
    """Find the masked patches that are predicted along each direction.

    Args:
        position (str): Position of the visible quarter.
        height (int): Rows of patches.
        width (int): Columns of patches.

    Returns:
        dict[str, Tensor]: Direction to (height, width), 1 or 0.
    """
    top, left = quarter_offset(position, height, width)
    rows, columns = _steps(top, height)[:, None], _steps(left, width)
    regions = {}
    for name, (step_x, step_y) in DIRECTIONS.items():
        region = (rows == step_y) & (columns == step_x)
        if region.any():
            regions[name] = region.float()
    return regions


def _steps(start: int, length: int) -> Tensor:
    """Sign of the step from the visible half to each row or column."""
    index = torch.arange(length)
    return (index >= start + length // 2).int() - (index < start).int()
