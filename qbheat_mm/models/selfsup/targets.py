# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a model predicts instead of pixels."""
import math
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence

import torch
from mmengine.model import BaseModule
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from ...errors import UserError
from ..layers.autocast import outside_autocast


class TargetGenerator(BaseModule, metaclass=ABCMeta):
    """A ``target_generator`` that may depend on the crop of each image."""

    @property
    def channels(self) -> int | None:
        """Channels of the targets; None if the model's settings give them."""
        return None

    @abstractmethod
    def forward(self, images: Tensor, data_samples: Sequence,
                grid: tuple[int, int]) -> Tensor:
        """Return the targets of a batch.

        Args:
            images (Tensor): Normalized images, (B, 3, H, W).
            data_samples (Sequence): Their mmpretrain ``DataSample``.
            grid (tuple[int, int]): Rows and columns of the prediction.

        Returns:
            Tensor: (B, rows * columns, C), in row-major order.
        """


class ImageTargets(TargetGenerator):
    """Targets of mmpretrain's generators, which see the images alone.

    Generators such as ``HOGGenerator`` return (B, L, C) in row-major order.
    Several targets of a position of the grid are concatenated.

    Args:
        generator (nn.Module): The generator.
    """

    def __init__(self, generator: nn.Module) -> None:
        super().__init__()
        self.generator = generator

    @torch.no_grad()
    def forward(self, images: Tensor, data_samples: Sequence,
                grid: tuple[int, int]) -> Tensor:
        """See :class:`TargetGenerator`.

        Raises:
            UserError: If the targets don't divide into the grid.
        """
        with outside_autocast(images):
            targets = self.generator(images.float())
        rows, columns = grid
        number = targets.shape[1]
        side = math.isqrt(number // (rows * columns))
        if side < 1 or side**2 * rows * columns != number:
            raise UserError(
                f'model.target_generator: {type(self.generator).__name__} '
                f'returns {number} targets for images of '
                f'{images.shape[2]}x{images.shape[3]} pixels, which do not '
                f'divide into {rows}x{columns} patches: change the size of '
                'the images')
        cells = targets.unflatten(1, (rows, side, columns, side))
        return cells.transpose(2, 3).flatten(3).flatten(1, 2)


def build_target_generator(
        settings: dict | nn.Module | None) -> TargetGenerator | None:
    """Build a generator of ours or of mmpretrain; None for pixels."""
    if settings is None:
        return None
    generator = settings
    if not isinstance(settings, nn.Module):
        generator = MMPRETRAIN_MODELS.build(settings)
    if isinstance(generator, TargetGenerator):
        return generator
    return ImageTargets(generator)
