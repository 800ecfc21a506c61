# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Convert RGB images to network inputs and back."""
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


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
        mean, std = (
            tuple(value.flatten().tolist()) if value is not None else ()
            for value in (getattr(preprocessor, name, None)
                          for name in ('mean', 'std')))
        return cls(mean, std, bool(rgb))

    @classmethod
    def from_settings(cls, given: Mapping) -> 'Normalization | None':
        """Read it from ``data_preprocessor`` of a config; None if invalid."""
        try:
            mean, std = (tuple(map(float, given.get(name) or ()))
                         for name in ('mean', 'std'))
        except (TypeError, ValueError):
            return None
        if len(mean) != len(std) or not all(
                0 < value < math.inf for value in std):
            return None
        return cls(mean, std, any(
            given.get(key) is True for key in ('bgr_to_rgb', 'to_rgb')))

    def is_close(self, other: 'Normalization') -> bool:
        """Whether both agree to within 1 %, as published constants do."""
        ours, theirs = ((*n.mean, *n.std) for n in (self, other))
        return self.rgb == other.rgb and len(ours) == len(theirs) and all(
            math.isclose(a, b, rel_tol=0.01, abs_tol=0.01)
            for a, b in zip(ours, theirs))

    def __str__(self) -> str:
        order = 'RGB' if self.rgb else 'BGR'
        if not self.mean:
            return f'{order}, not normalized'
        mean, std = ('/'.join(f'{value:g}' for value in values)
                     for values in (self.mean, self.std))
        return f'{order}, mean {mean}, std {std}'


class Normalize(nn.Module):
    """Normalize RGB images for a network.

    Args:
        normalization (Normalization): Mean, std and channel order.
    """

    def __init__(self, normalization: Normalization) -> None:
        super().__init__()
        self.rgb = normalization.rgb
        for name, values in (('mean', normalization.mean or (0., )),
                             ('std', normalization.std or (1., ))):
            self.register_buffer(
                name, torch.tensor(values).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """RGB (B, 3, H, W), 0-255, to float32 network input."""
        images = images.to(self.mean)
        images = images if self.rgb else images.flip(1)
        return (images - self.mean) / self.std

    def inverse(self, inputs: Tensor) -> Tensor:
        """Network input (B, 3, H, W) to RGB, 0-255, not clamped."""
        images = inputs * self.std + self.mean
        return images if self.rgb else images.flip(1)
