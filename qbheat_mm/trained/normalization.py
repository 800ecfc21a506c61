# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Convert RGB images to network inputs and back."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import UserError
from ..utils.settings import find_settings


@dataclass(frozen=True)
class Normalization:
    """Input normalization of a network.

    Attributes:
        mean (tuple[float, ...]): Mean of each channel, 0-255, in the
            network's channel order; empty for none.
        std (tuple[float, ...]): Standard deviation of each channel; empty
            for none.
        rgb (bool): Whether channels are RGB instead of BGR.
    """
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    rgb: bool = True

    @classmethod
    def of(cls, model: nn.Module) -> 'Normalization | None':
        """Read it from a model's data preprocessor.

        Returns:
            Normalization | None: None unless the preprocessor is one of
            mmengine, mmpretrain or mmdet.
        """
        preprocessor = getattr(model, 'data_preprocessor', None)
        # mmengine and mmdet have no public attribute for the channel order.
        rgb = getattr(preprocessor, 'to_rgb',
                      getattr(preprocessor, '_channel_conversion', None))
        if rgb is None:
            return None

        def values(name: str) -> tuple[float, ...]:
            buffer = getattr(preprocessor, name, None)
            return () if buffer is None else tuple(buffer.flatten().tolist())

        return cls(values('mean'), values('std'), bool(rgb))

    @classmethod
    def from_settings(cls, given: Mapping) -> 'Normalization | None':
        """Read it from ``data_preprocessor`` of a config; None if invalid."""
        try:
            mean = tuple(float(value) for value in given.get('mean') or ())
            std = tuple(float(value) for value in given.get('std') or ())
        except (TypeError, ValueError):
            return None
        positive = np.isfinite(std).all() and np.greater(std, 0).all()
        if len(mean) != len(std) or not positive:
            return None
        rgb = given.get('bgr_to_rgb') is True or given.get('to_rgb') is True
        return cls(mean, std, rgb)

    def is_close(self, other: 'Normalization') -> bool:
        """Whether both agree to within 1 %, as published constants do."""
        ours, theirs = self.mean + self.std, other.mean + other.std
        if self.rgb != other.rgb or len(ours) != len(theirs):
            return False
        return bool(np.allclose(ours, theirs, rtol=0.01, atol=0.01))

    def __str__(self) -> str:
        order = 'RGB' if self.rgb else 'BGR'
        if not self.mean:
            return f'{order}, not normalized'
        return f'{order}, mean {_join(self.mean)}, std {_join(self.std)}'


def input_normalization(settings: Any) -> Normalization | None:
    """Return the input normalization of a config; None unless valid."""
    given = next(find_settings(settings, 'data_preprocessor'), None)
    return None if given is None else Normalization.from_settings(given)


def require_close(trained: Normalization | None, given: Normalization | None,
                  path: str) -> None:
    """Raise UserError if a model is not given images as in its training.

    Args:
        trained, given (Normalization | None): Normalization in training and
            now; anything fits None, which stands for unknown.
        path (str): Checkpoint of the model, for the message.
    """
    if trained and given and not trained.is_close(given):
        raise UserError(
            f"checkpoint '{path}' was trained with {trained}, but "
            f'model.data_preprocessor gives {given}: set mean, std and '
            'channel order (bgr_to_rgb in mmdet, to_rgb in mmpretrain) '
            'accordingly, or set allow_other_normalization=True of '
            'default_hooks.checkpoint_match or of init_cfg')


def _join(values: Sequence[float]) -> str:
    return '/'.join(f'{value:g}' for value in values)


class Normalize(nn.Module):
    """Normalize RGB images for a network.

    Args:
        normalization (Normalization): Mean, std and channel order.
    """

    def __init__(self, normalization: Normalization) -> None:
        super().__init__()
        self.rgb = normalization.rgb
        mean = torch.tensor(normalization.mean or (0., )).view(-1, 1, 1)
        std = torch.tensor(normalization.std or (1., )).view(-1, 1, 1)
        self.register_buffer('mean', mean, persistent=False)
        self.register_buffer('std', std, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """RGB (B, 3, H, W), 0-255, to float32 network input."""
        images = images.to(self.mean)
        images = images if self.rgb else images.flip(1)
        return (images - self.mean) / self.std

    def inverse(self, inputs: Tensor) -> Tensor:
        """Network input (B, 3, H, W) to RGB, 0-255, not clamped."""
        images = inputs * self.std + self.mean
        return images if self.rgb else images.flip(1)
