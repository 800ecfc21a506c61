# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What can be said of an encoder without training anything on it."""
import torch
import torch.nn.functional as F
from torch import Tensor

from ..analysis.correlation import spatial_correlation
from ..analysis.spectrum import commutator, eigenvalues, energy
from ..layers.linear_extrapolation import DIRECTIONS, LinearExtrapolation


def describe_tokens(tokens: Tensor) -> dict[str, float]:
    """Do tokens differ, and do they say anything about the image?

    Args:
        tokens (Tensor): Of N images, (N, T, d), N and T at least 2.

    Returns:
        dict[str, float]: Mean cosine of two tokens of an image, ``tokens``,
        and of the same token of two images, ``images``; 1 where all are the
        same.
    """
    unit = F.normalize(tokens.double(), dim=-1)
    return dict(tokens=_mean_cosine(unit),
                images=_mean_cosine(unit.transpose(0, 1)))


def _mean_cosine(unit: Tensor) -> float:
    """Mean cosine of two different rows of (B, N, D) unit vectors."""
    count = unit.shape[1]
    # the square of a sum is the sum of all products, of a row with itself too
    squares = unit.sum(dim=1).square().sum(dim=-1)
    return float(((squares - count) / (count * (count - 1))).mean())


def effective_rank(features: Tensor) -> float:
    """In how many directions features spread: RankMe of (N, D).

    The exponential of the entropy of the normalised singular values (Garrido
    et al., "RankMe", ICML 2023, equation 3), of centred features.
    """
    features = features.double()
    values = torch.linalg.svdvals(features - features.mean(dim=0))
    share = values / values.sum()
    return float(torch.special.entr(share).sum().exp())


def describe_maps(maps: Tensor, tokens: Tensor) -> dict[str, float]:
    """Numbers of an encoder's features of N images.

    Args:
        maps (Tensor): (N, C, H, W).
        tokens (Tensor): (N, T, d).

    Returns:
        dict[str, float]: ``token similarity`` within an image, ``token
        similarity between images``, ``spatial correlation``, ``effective
        rank`` of the pooled features.
    """
    similarity = describe_tokens(tokens)
    return {
        'token similarity': similarity['tokens'],
        'token similarity between images': similarity['images'],
        'spatial correlation': float(spatial_correlation(maps).mean()),
        'effective rank': effective_rank(maps.mean(dim=(2, 3))),
    }


def describe_matrices(weights: dict[str, Tensor]) -> dict[str, float]:
    """Numbers of the linear models in a checkpoint.

    Args:
        weights (dict[str, Tensor]): All tensors of the checkpoint.

    Returns:
        dict[str, float]: ``energy ratio`` E(A) / E(B) and ``commutator``, of
        each scale that has linear models (``..., half``, ``..., quarter``).
    """
    report = {}
    for scale in ('half', 'quarter'):
        weight = weights.get(f'predictor.{scale}_step.weight')
        if weight is None:
            continue
        linear = LinearExtrapolation(weight.shape[-1], len(weight))
        linear.weight.data.copy_(weight)
        a, b = (linear.matrix(DIRECTIONS[name]).detach().double()
                for name in ('right', 'down'))
        report[f'energy ratio, {scale}'] = (
            energy(eigenvalues(a)) / energy(eigenvalues(b)))
        report[f'commutator, {scale}'] = commutator(a, b)
    return report
