# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The strides and channels of what a backbone returns."""
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Outputs:
    """What a backbone returns for an image.

    Attributes:
        strides, channels (list[int]): Stride and channels of each map.
        token_dims (int): Width of its tokens; 0 without.
    """
    strides: list[int]
    channels: list[int]
    token_dims: int = 0

    @classmethod
    def of(cls, backbone: nn.Module) -> 'Outputs':
        """Run a backbone once to find out."""
        backbone.eval()  # returns None for a ResNet
        with torch.no_grad():
            outs = backbone(torch.zeros(1, 3, 256, 256))
        if not isinstance(outs, tuple | list):
            outs = [outs]
        strides, channels, token_dims = [], [], 0
        for out in outs:
            if out.ndim == 4:
                strides.append(2**round(math.log2(256 / out.shape[3])))
                channels.append(out.shape[1])
            elif out.ndim == 3:
                token_dims = out.shape[2]
        return cls(strides, channels, token_dims)

    @property
    def width(self) -> int:
        """Width of the pooled last map and the first token."""
        return self.channels[-1] + self.token_dims

    @property
    def deepest(self) -> dict[int, int]:
        """The index of the deepest map of each stride."""
        return {stride: i for i, stride in enumerate(self.strides)}

    def select(self, indices: Sequence[int]) -> 'Outputs':
        """Choose maps; tokens follow the last one."""
        number = len(self.strides)
        maps = [i for i in indices if i < number]
        return Outputs([self.strides[i] for i in maps],
                       [self.channels[i] for i in maps],
                       self.token_dims if number in indices else 0)


def num_outputs(network: nn.Module) -> int | None:
    """The number of outputs to choose from; None if they are fixed."""
    if hasattr(network, 'num_outputs'):
        return network.num_outputs
    # A published classifier takes the last one.
    indices = getattr(network, 'out_indices', None)
    if not isinstance(indices, tuple | list) or min(indices, default=-1) < 0:
        return None
    return max(indices) + 1
