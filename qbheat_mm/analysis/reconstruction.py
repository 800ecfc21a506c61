# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Reconstruct an image from one quarter, and show it without cheating.

With normalized targets (``head.norm_pix``) the network predicts each patch
with zero mean and unit variance, never its brightness and contrast. A picture
takes these two numbers from one of :data:`STATISTICS`:

- ``'contrast'``: from nowhere. Mid-gray and a fixed contrast everywhere.
- ``'visible'``: extrapolated from the patches of the visible quarter.
- ``'true'``: from the masked pixels themselves. Such a picture looks best and
  proves least: even a blank prediction would show the image coarsely.
"""
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError
from ..models.selfsup import QBHeat
from ..models.selfsup.quarters import CENTER, CORNERS
from ..trained import Normalize
from ..utils.modules import evaluating
from .style import VERMILION, in_style, picture_rows

QUARTERS = (*CORNERS, CENTER)

#: Sources of the brightness and contrast of a predicted patch.
STATISTICS = ('contrast', 'visible', 'true')

#: Gray levels (of 256) that show one standard deviation of a patch.
GREY_LEVELS_PER_STD = 48

#: Titles of the columns, which say where brightness and contrast come from.
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
        position (str): Of the visible quarter.
        images (Tensor): The whole images, normalized, (B, 3, H, W).
        pred (Tensor): Prediction in units of the target, (B, 3, H, W).
        mask (Tensor): (B, 1, H, W), 1 where the network saw nothing.
        errors (Tensor): Loss of each image over its masked patches, (B, );
            1 for flat gray with normalized targets and the squared error.
    """
    position: str
    images: Tensor
    pred: Tensor
    mask: Tensor
    errors: Tensor


def trained_positions(model: QBHeat) -> tuple[str, ...]:
    """Return the positions that a model is trained on."""
    return dict(corner=(*CORNERS, ), center=(CENTER, ), mixed=QUARTERS)[
        model.position]


@torch.no_grad()
def reconstruct(model: QBHeat, images: Tensor,
                position: str) -> Reconstruction:
    """Reconstruct normalized images (B, 3, H, W) from one quarter of each.

    Raises:
        UserError: A position that the model is not trained on.
    """
    if position not in trained_positions(model):
        raise UserError(
            f'position {position!r}: a model of position={model.position!r} '
            f'predicts from {", ".join(trained_positions(model))} only')
    with evaluating(model):
        found = model.reconstruct(images, position)
    mask = model.mask(images, [(position, len(images))])
    pred = model.head.patchify(found['pred'])
    errors = [model.head.loss(pred[i:i + 1], images[i:i + 1], mask[i:i + 1])
              for i in range(len(images))]
    return Reconstruction(position, images, found['pred'], found['mask'],
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
        normalize (Normalize): Of the model's input.
        statistics (str): One of :data:`STATISTICS`; unused if the model
            predicts pixels (``norm_pix=False``).
    """
    pred = reconstruction.pred
    if not model.head.norm_pix:
        predicted = normalize.inverse(pred)
    elif statistics == 'contrast':
        pred = pred if normalize.rgb else pred.flip(1)
        predicted = 127.5 + GREY_LEVELS_PER_STD * pred
    else:
        predicted = normalize.inverse(
            _add_statistics(reconstruction, model, statistics))
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


def _add_statistics(reconstruction: Reconstruction, model: QBHeat,
                    statistics: str) -> Tensor:
    """Give predicted patches a mean and a standard deviation."""
    head, images = model.head, reconstruction.images
    patches = head.patchify(images)
    mean, std = patches.mean(dim=-1), patches.std(dim=-1)
    if statistics == 'visible':
        height, width = (n // head.patch_size for n in images.shape[2:])
        mask = model.mask(images, [(reconstruction.position, len(images))])
        mean, std = extrapolate(torch.stack([mean, std]),
                                (mask[0] == 0).view(height, width))
    patches = (head.patchify(reconstruction.pred) * std[..., None]
               + mean[..., None])
    return head.unpatchify(patches, *images.shape[2:])


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
    figure, axes = picture_rows([
        {TITLES[key]: row[key] for key in columns} for _, row in rows])
    for axis, (label, _) in zip(axes[:, 0], rows):
        axis.set_ylabel(label)
    if 'true' in columns:  # mark what was not predicted
        for axis in axes[:, columns.index('true')]:
            axis.spines[:].set(visible=True, linestyle='--', linewidth=2,
                               color=VERMILION)
    return figure
