# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Spatial correlation, the redundancy of a feature map.

Appendix D, Figure 12.
"""
import math

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from ..report.style import GREY, in_style, new_figure


def spatial_correlation(feats: Tensor) -> Tensor:
    """Mean absolute correlation of two different positions.

    Barlow Twins' cross-correlation matrix, with positions for its features
    and channels for its batch.

    Args:
        feats (Tensor): Feature maps, (B, C, H, W).

    Returns:
        Tensor: (B, ), 1 if all positions are equal up to sign and scale.
        Positions whose channels are all equal, such as zeros after a ReLU,
        count as 0.
    """
    vectors = feats.flatten(2)
    vectors = F.normalize(vectors - vectors.mean(dim=1, keepdim=True), dim=1)
    correlation = (vectors.mT @ vectors).abs()
    num = correlation.shape[-1]
    diagonal = correlation.diagonal(dim1=1, dim2=2).sum(dim=1)
    return (correlation.sum(dim=(1, 2)) - diagonal) / (num * (num - 1))


def chance_correlation(channels: int) -> float:
    """Expected absolute correlation of two independent normal vectors.

    About ``sqrt(2 / (pi * channels))``.
    """
    log_ratio = math.lgamma((channels - 1) / 2) - math.lgamma(channels / 2)
    return math.exp(log_ratio) / math.sqrt(math.pi)


@in_style()
def draw_histograms(correlations: dict[str, np.ndarray],
                    chance: dict[str, float]):
    """Draw one histogram for each model.

    Args:
        correlations (dict[str, np.ndarray]): Model to one value per image.
        chance (dict[str, float]): Model to the correlation of unrelated
            positions.
    """
    figure = new_figure(5.2, 3.4)
    axis = figure.subplots()
    highest = np.concatenate(list(correlations.values())).max()
    top = min(1.0, np.ceil(highest * 10 + 0.5) / 10)
    bins = np.linspace(0, top, 41)
    for name, values in correlations.items():
        axis.hist(values, bins, alpha=0.4,
                  label=f'{name} (mean {np.mean(values):.3f})')
    for value in sorted(set(chance.values())):
        axis.axvline(value, color=GREY, linestyle=':', linewidth=1,
                     label='unrelated positions')
    axis.set(xlabel='spatial correlation (mean absolute, off-diagonal)',
             ylabel='images', xlim=(0, top),
             title=f'Spatial correlation over {len(values)} images')
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.legend()
    return figure
