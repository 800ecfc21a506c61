# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Spatial correlation of a feature map.

Appendix "Analysis of Models Pre-trained by MoCo-v2": are the positions of one
image's feature map different, or do all say the same?
"""
import math

import torch.nn.functional as F
from torch import Tensor


def cross_correlation(feats: Tensor) -> Tensor:
    """Correlation of each pair of positions over the channels.

    As Barlow Twins' cross-correlation matrix, with positions in the place of
    its features and channels in the place of its batch: each position's
    vector is centered and has unit length.

    Args:
        feats (Tensor): Feature maps, (B, C, H, W).

    Returns:
        Tensor: (B, N, N) for N = H * W positions, entries in [-1, 1]. A
        position of which all channels are equal (as after a ReLU that let
        nothing pass) has no correlation: its entries are 0.
    """
    vectors = feats.flatten(2)
    vectors = vectors - vectors.mean(dim=1, keepdim=True)
    vectors = F.normalize(vectors, dim=1)
    return vectors.transpose(1, 2) @ vectors


def spatial_correlation(feats: Tensor) -> Tensor:
    """Mean absolute off-diagonal correlation of each image, (B, ).

    Args:
        feats (Tensor): Feature maps, (B, C, H, W), of at least 2 positions.

    Returns:
        Tensor: 1 if all positions are equal up to sign and scale.
    """
    correlation = cross_correlation(feats).abs()
    num = correlation.shape[-1]
    diagonal = correlation.diagonal(dim1=1, dim2=2).sum(dim=1)
    return (correlation.sum(dim=(1, 2)) - diagonal) / (num * (num - 1))


def chance_correlation(channels: int) -> float:
    """Expected absolute correlation of two independent normal vectors.

    About ``sqrt(2 / (pi * channels))``: what a map of unrelated positions
    has, since few channels correlate by chance.
    """
    log_ratio = math.lgamma((channels - 1) / 2) - math.lgamma(channels / 2)
    return math.exp(log_ratio) / math.sqrt(math.pi)
