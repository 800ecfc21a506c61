# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Reconstruct images from one quarter each.

With normalized targets (``head.norm_pix``) the network predicts each patch
with zero mean and unit variance, without its brightness and contrast. Pictures
take these two from one of three sources:

- ``'contrast'``: mid-gray and a fixed contrast everywhere.
- ``'visible'``: extrapolated from the patches of the visible quarter.
- ``'true'``: the masked pixels themselves. These pictures look best and prove
  least: even a blank prediction would show the image coarsely.
"""
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import UserError
from ..models.selfsup import QBHeat
from ..models.selfsup.quarters import CENTER, CORNERS
from ..report.style import VERMILION, in_style, picture_rows
from ..trained import Normalize
from ..utils.modules import evaluating

QUARTERS = (*CORNERS, CENTER)

#: Gray levels (of 256) that show one standard deviation of a patch.
GREY_LEVELS_PER_STD = 48

#: Titles of the columns, with the source of brightness and contrast.
TITLES = dict(
    original='original',
    given='visible quarter',
    contrast='reconstruction\n(contrast around mid-gray,\n'
    f'{GREY_LEVELS_PER_STD} levels per std)',
    visible='reconstruction\n(brightness and contrast from\n'
    'the visible quarter)',
    true='TRUE PATCH STATISTICS\n(brightness and contrast taken\n'
    'from the masked pixels)',
    pixels='reconstruction\n(pixels as predicted)')


@dataclass(frozen=True)
class Reconstruction:
    """Images reconstructed from one quarter each.

    Attributes:
        images (Tensor): The whole images, normalized, (B, 3, H, W).
        pred (Tensor): Prediction in units of the target, (B, 3, H, W).
        mask (Tensor): (B, 1, H, W), 1 for masked pixels.
        errors (Tensor): Loss of each image over its masked patches, (B, );
            1 for flat gray with normalized targets and the squared error.
    """
    images: Tensor
    pred: Tensor
    mask: Tensor
    errors: Tensor


def trained_positions(model: QBHeat) -> tuple[str, ...]:
    """Return the positions that a model is trained on."""
    positions = dict(corner=tuple(CORNERS), center=(CENTER, ), mixed=QUARTERS)
    return positions[model.position]


@torch.no_grad()
def reconstruct(model: QBHeat, images: Tensor,
                position: str) -> Reconstruction:
    """Reconstruct normalized images (B, 3, H, W) from one quarter of each.

    Raises:
        UserError: If the model is not trained on the position.
    """
    if position not in trained_positions(model):
        raise UserError(
            f'position {position!r}: a model of position={model.position!r} '
            f'predicts from {", ".join(trained_positions(model))} only')
    head, positions = model.head, [(position, len(images))]
    with evaluating(model):
        pred = model.predict_pixels(images, positions)
    mask = model.mask(images, positions)
    errors = [head.loss(pred[i:i + 1], images[i:i + 1], mask[i:i + 1])
              for i in range(len(images))]
    size = images.shape[2:]
    mask = head.unpatchify(mask[..., None].expand_as(pred), *size)
    return Reconstruction(images, head.unpatchify(pred, *size), mask[:, :1],
                          torch.stack(errors))


def to_picture(images: Tensor) -> np.ndarray:
    """Convert RGB (B, 3, H, W), 0-255, to pictures (B, H, W, 3), uint8."""
    pixels = images.clamp(0, 255).round().to(torch.uint8)
    return pixels.permute(0, 2, 3, 1).cpu().numpy()


def render(reconstruction: Reconstruction, model: QBHeat,
           normalize: Normalize, statistics: str) -> np.ndarray:
    """Show a reconstruction: the visible quarter as is, the rest predicted.

    Args:
        reconstruction (Reconstruction): From :func:`reconstruct`.
        model (QBHeat): The model that predicted it.
        normalize (Normalize): Normalization of the model's input.
        statistics (str): ``'contrast'``, ``'visible'`` or ``'true'``; unused
            if the model predicts pixels (``norm_pix=False``).
    """
    pred = reconstruction.pred
    if not model.head.norm_pix:
        predicted = normalize.inverse(pred)
    elif statistics == 'contrast':
        pred = pred if normalize.rgb else pred.flip(1)
        predicted = 127.5 + GREY_LEVELS_PER_STD * pred
    else:
        predicted = normalize.inverse(
            _add_statistics(reconstruction, model.head, statistics))
    return to_picture(torch.where(
        reconstruction.mask > 0, predicted,
        normalize.inverse(reconstruction.images)))


def hide(reconstruction: Reconstruction, normalize: Normalize) -> np.ndarray:
    """Show the visible quarter, with gray for the rest."""
    return to_picture(normalize.inverse(reconstruction.images).masked_fill(
        reconstruction.mask > 0, 128))


def strips(reconstruction: Reconstruction, model: QBHeat,
           normalize: Normalize) -> np.ndarray:
    """Show original | visible quarter | reconstruction of each image.

    Returns:
        np.ndarray: One picture, (B * H, 3 * W, 3), RGB, uint8.
    """
    rows = np.concatenate([
        to_picture(normalize.inverse(reconstruction.images)),
        hide(reconstruction, normalize),
        render(reconstruction, model, normalize, 'contrast')], axis=2)
    return rows.reshape(-1, *rows.shape[2:])


def _add_statistics(reconstruction: Reconstruction, head: nn.Module,
                    statistics: str) -> Tensor:
    """Give predicted patches a mean and a standard deviation."""
    size, p = reconstruction.images.shape[2:], head.patch_size
    patches = head.patchify(reconstruction.images)
    mean, std = patches.mean(dim=-1), patches.std(dim=-1)
    if statistics == 'visible':
        mean, std = extrapolate(torch.stack([mean, std]),
                                reconstruction.mask[0, 0, ::p, ::p] == 0)
    mean = head.unpatchify(mean[..., None].expand_as(patches), *size)
    std = head.unpatchify(std[..., None].expand_as(patches), *size)
    return reconstruction.pred * std + mean


def extrapolate(values: Tensor, visible: Tensor) -> Tensor:
    """Extend values of visible patches over the masked ones.

    A masked patch gets the mean of all visible ones, weighted by the inverse
    fourth power of their distance: close to the quarter the nearest patches
    dominate, far away all count alike.

    Args:
        values (Tensor): (..., H * W); those of masked patches are replaced.
        visible (Tensor): (H, W), True for the patches of the quarter.
    """
    seen = visible.flatten()
    places = torch.nonzero(torch.ones_like(visible)).to(values)
    weights = torch.cdist(places[~seen], places[seen]).pow(-4)
    weights = weights / weights.sum(dim=1, keepdim=True)
    out = values.clone()
    out[..., ~seen] = values[..., seen] @ weights.T
    return out


@in_style()
def draw_reconstructions(rows: Sequence[tuple[str, dict]]):
    """Draw one row of pictures for each image and position.

    Args:
        rows (Sequence[tuple[str, dict[str, np.ndarray]]]): Label, and key of
            :data:`TITLES` to picture, (H, W, 3), RGB, uint8.
    """
    columns = [key for key in TITLES if key in rows[0][1]]
    pictures = []
    for _, row in rows:
        pictures.append({TITLES[key]: row[key] for key in columns})
    figure, axes = picture_rows(pictures)
    for axis, (label, _) in zip(axes[:, 0], rows):
        axis.set_ylabel(label)
    if 'true' in columns:  # mark what was not predicted
        for axis in axes[:, columns.index('true')]:
            axis.spines[:].set(visible=True, linestyle='--', linewidth=2,
                               color=VERMILION)
    return figure
