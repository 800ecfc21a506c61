# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What can be said of an encoder without training anything on it."""
from torch import Tensor

from ..analysis.correlation import spatial_correlation
from ..analysis.embedding_quality import effective_rank, mean_similarity
from ..analysis.spectrum import commutator, eigenvalues, energy
from ..layers.linear_extrapolation import DIRECTIONS, LinearExtrapolation


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
    return {
        'token similarity': float(mean_similarity(tokens).mean()),
        'token similarity between images': float(
            mean_similarity(tokens.transpose(0, 1)).mean()),
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
