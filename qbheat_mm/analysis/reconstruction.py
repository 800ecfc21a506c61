# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Reconstruct an image from one quarter, and show it without cheating.

With normalized targets (``head.norm_pix``) the network predicts each patch
with zero mean and unit variance; it never predicts brightness and contrast. A
picture must take these two numbers from somewhere, and says from where:

- ``'contrast'``: from nowhere. Mid-grey and a fixed contrast everywhere.
- ``'visible'``: extrapolated from the patches of the visible quarter, that
  is from what the network was given.
- ``'true'``: from the masked pixels themselves. Such a picture looks best and
  proves least: a blank prediction, too, would show the image coarsely.
"""
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError
from ..models.selfsup import QBHeat
from ..models.selfsup.quarters import CENTER, CORNERS
from .matrices import evaluating
from .pixels import PixelSpace

QUARTERS = (*CORNERS, CENTER)

#: Where the brightness and contrast of a predicted patch come from.
STATISTICS = ('contrast', 'visible', 'true')

#: Grey levels (of 256) that one standard deviation of a patch is shown by.
GREY_LEVELS_PER_STD = 48


@dataclass(frozen=True)
class Reconstruction:
    """Images reconstructed from one quarter each.

    Attributes:
        position (str): Of the visible quarter.
        images (Tensor): The whole images, normalized, (B, 3, H, W).
        pred (Tensor): What was predicted, in units of the target, the same
            shape.
        mask (Tensor): (B, 1, H, W), 1 where the network saw nothing.
        errors (Tensor): Loss of each image over its masked patches, (B, ).
            With normalized targets and the squared error, flat grey has 1.
    """
    position: str
    images: Tensor
    pred: Tensor
    mask: Tensor
    errors: Tensor


def trained_positions(model: QBHeat) -> tuple[str, ...]:
    """The positions that a model was trained on, by its ``position``."""
    return dict(
        corner=tuple(CORNERS), center=(CENTER, ), mixed=QUARTERS)[model.position]


def reconstruct(model: QBHeat, images: Tensor,
                position: str) -> Reconstruction:
    """Reconstruct whole images from one quarter of each.

    Args:
        model (QBHeat): With encoder, predictor and decoder.
        images (Tensor): Normalized images, (B, 3, H, W).
        position (str): A corner (``'top_left'`` ...) or ``'center'``.

    Raises:
        UserError: A position that the model was not trained on.
    """
    if position not in trained_positions(model):
        raise UserError(
            f'position {position!r}: a model of position={model.position!r} '
            f'predicts from {", ".join(trained_positions(model))} only')
    head = model.head
    with evaluating(model), torch.no_grad():
        predicted = model.reconstruct(images, position)
        mask = model.mask(images, [(position, len(images))])
        pred = head.patchify(predicted['pred'])
        errors = [
            head.loss(pred[i:i + 1], images[i:i + 1], mask[i:i + 1])
            for i in range(len(images))
        ]
    return Reconstruction(position, images, predicted['pred'],
                          predicted['mask'],
                    torch.stack(errors))


def render(reconstruction: Reconstruction, model: QBHeat, pixels: PixelSpace,
           statistics: str) -> np.ndarray:
    """Show a reconstruction: the visible quarter as is, the rest predicted.

    Args:
        reconstruction (Reconstruction): From :func:`reconstruct`.
        model (QBHeat): The model that predicted it.
        pixels (PixelSpace): Of the model's data preprocessor.
        statistics (str): One of :data:`STATISTICS`; of no effect if the model
            predicts pixels as they are (``norm_pix=False``).

    Returns:
        np.ndarray: RGB pictures, (B, H, W, 3), uint8.
    """
    if statistics not in STATISTICS:
        raise UserError(f'statistics={statistics!r} is not one of '
                        f'{", ".join(STATISTICS)}')
    seen = pixels.picture(reconstruction.images)
    if not model.head.norm_pix:
        predicted = pixels.picture(reconstruction.pred)
    elif statistics == 'contrast':
        predicted = _as_contrast(reconstruction.pred, pixels.model_is_rgb)
    else:
        predicted = pixels.picture(_dress(reconstruction, model, statistics))
    mask = reconstruction.mask.permute(0, 2, 3, 1).cpu().numpy() > 0
    return np.where(mask, predicted, seen)


def hide(reconstruction: Reconstruction, pixels: PixelSpace) -> np.ndarray:
    """What the network was given: the visible quarter, the rest grey."""
    mask = reconstruction.mask.permute(0, 2, 3, 1).cpu().numpy() > 0
    seen = pixels.picture(reconstruction.images)
    return np.where(mask, np.uint8(128), seen)


def strips(reconstruction: Reconstruction, model: QBHeat,
           pixels: PixelSpace) -> np.ndarray:
    """One picture of many images, for a log.

    Returns:
        np.ndarray: A row for each image, original | visible quarter |
        reconstruction; (B * H, 3 * W, 3), RGB, uint8.
    """
    columns: list[np.ndarray] = [
        pixels.picture(reconstruction.images),
        hide(reconstruction, pixels),
        render(reconstruction, model, pixels, 'contrast')
    ]
    rows = np.concatenate(columns, axis=2)
    return rows.reshape(-1, *rows.shape[2:])


def _as_contrast(pred: Tensor, is_rgb: bool) -> np.ndarray:
    pred = pred if is_rgb else pred.flip(1)
    grey = (127.5 + GREY_LEVELS_PER_STD * pred).clamp(0, 255).round()
    return grey.to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()


def _dress(reconstruction: Reconstruction, model: QBHeat,
           statistics: str) -> Tensor:
    """Give predicted patches a mean and a standard deviation."""
    head, images = model.head, reconstruction.images
    patches = head.patchify(images)
    mean = patches.mean(dim=-1)
    std = patches.std(dim=-1)
    if statistics == 'visible':
        height, width = (n // head.patch_size for n in images.shape[2:])
        mask = model.mask(
            images, [(reconstruction.position, len(images))])
        visible = mask[0] == 0
        mean, std = extrapolate(
            torch.stack([mean, std]), visible.view(height, width))
    dressed = (head.patchify(reconstruction.pred) * std[..., None]
               + mean[..., None])
    return head.unpatchify(dressed, *images.shape[2:])


def extrapolate(values: Tensor, visible: Tensor) -> Tensor:
    """Continue values of visible patches over the masked ones.

    Each masked patch gets the mean of all visible ones, weighted by the
    inverse fourth power of their distance: next to the quarter the nearest
    patches count, far away the mean of the quarter.

    Args:
        values (Tensor): (..., H * W); those of masked patches are not used.
        visible (Tensor): (H, W), True for the patches of the quarter.

    Returns:
        Tensor: (..., H * W); the visible ones unchanged.
    """
    seen = visible.flatten()
    positions = torch.nonzero(torch.ones_like(visible)).to(values)
    weights = torch.cdist(positions[~seen], positions[seen]).pow(-4)
    weights = weights / weights.sum(dim=1, keepdim=True)
    out = values.clone()
    out[..., ~seen] = values[..., seen] @ weights.T
    return out
