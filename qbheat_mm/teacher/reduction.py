# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Fewer channels for the maps of a teacher, by principal components."""
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

#: Smallest deviation of a channel, relative to the mean of its map.
MIN_STD = 0.1


class Reduction(NamedTuple):
    """Project the standardized channels of a map.

    Attributes:
        mean: (C, ).
        matrix: (C, K).
    """
    mean: Tensor
    matrix: Tensor

    def __call__(self, maps: Tensor) -> Tensor:
        """Maps (B, C, h, w) to (B, K, h, w)."""
        pixels = maps.permute(0, 2, 3, 1) - self.mean.to(maps)
        return (pixels @ self.matrix.to(maps)).permute(0, 3, 1, 2)


def limit_channels(shapes: Sequence[torch.Size], max_values: int
                   ) -> list[torch.Size]:
    """Limit the channels of all maps until their values are few enough.

    Args:
        shapes (Sequence[torch.Size]): Shapes (C, h, w) of the maps.
        max_values (int): Maximum number of values of all maps together.

    Returns:
        list[torch.Size]: Shapes with the largest limit that fits, at least
        one channel.
    """
    limit = max(shapes)[0]
    while True:
        limited = [torch.Size([min(shape[0], limit), *shape[1:]])
                   for shape in shapes]
        if limit == 1 or sum(map(torch.Size.numel, limited)) <= max_values:
            return limited
        limit -= 1


def find_reductions(batches: Iterable[list[Tensor]],
                    shapes: Sequence[torch.Size]) -> list[Reduction | None]:
    """Find the principal components of the channels of maps.

    Channels are standardized before. Components are rotated towards random
    directions that are always the same: each has an equal share of the
    variance, as channels have, and similar images get similar components.

    Args:
        batches (Iterable[list[Tensor]]): Maps (B, C, h, w).
        shapes (Sequence[torch.Size]): Shapes (K, h, w) that they get, with
            K components, or all channels: then, there is no reduction.
    """
    means, products, number = [0.] * len(shapes), [0.] * len(shapes), 0
    for maps in batches:
        number += len(maps[0])
        for i, each in enumerate(maps):
            if each.shape[1] > shapes[i][0]:
                pixels = each.permute(0, 2, 3, 1).flatten(1, 2)
                positions = pixels.shape[1]
                pixels = pixels.flatten(0, 1)
                means[i] = means[i] + pixels.double().sum(0) / positions
                products[i] = products[i] + (
                    (pixels.T @ pixels).double() / positions)
    reductions = []
    for mean, product, shape in zip(means, products, shapes):
        reduction = None
        if isinstance(mean, Tensor):
            mean = mean / number
            covariance = product / number - torch.outer(mean, mean)
            reduction = Reduction(mean.float(),
                                  _components(covariance, shape[0]))
        reductions.append(reduction)
    return reductions


def _components(covariance: Tensor, number: int) -> Tensor:
    """Return standardized, rotated principal components, (C, number)."""
    std = covariance.diagonal().clamp(min=0).sqrt()
    std = std.clamp(min=MIN_STD * std.mean())
    _, vectors = torch.linalg.eigh(covariance / torch.outer(std, std))
    vectors = vectors[:, -number:]
    noise = torch.randn(len(std), number, dtype=torch.float64,
                        generator=torch.Generator().manual_seed(0))
    left, _, right = torch.linalg.svd(vectors.T @ noise)
    return (vectors @ left @ right / std[:, None]).float()
