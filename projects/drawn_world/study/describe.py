# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What can be said of an encoder without training anything on it."""
from statistics import mean

from torch import Tensor

from qbheat_mm.analysis.correlation import spatial_correlation
from qbheat_mm.analysis.embedding_quality import (
    effective_rank,
    mean_similarity,
)
from qbheat_mm.analysis.losses import copied_loss, masked_loss
from qbheat_mm.analysis.matrices import SCALES, linear_models
from qbheat_mm.analysis.spectrum import (
    commutator,
    describe_predictor,
    eigenvalues,
    energy,
)
from qbheat_mm.errors import UserError
from qbheat_mm.models.selfsup import QBHeat
from qbheat_mm.models.selfsup.qbheat_predictor import (
    DIRECTIONS,
    LinearExtrapolation,
)


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


def describe_linear_models(model: QBHeat, images: Tensor) -> dict[str, float]:
    """What was learned by linear models at both scales, and their worth.

    The observations of the paper's section "Interesting Observations in
    Matrices A, B" in one number each.

    Args:
        model (QBHeat): With a half and a quarter step.
        images (Tensor): Normalized, (N, 3, H, W), not trained on.

    Returns:
        dict[str, float]: Means over A, B and both scales: ``rank`` and
        ``complex eigenvalues``, shares of all; ``spectral norm``. ``scales,
        spectra``: how far the spectra of a quarter and a half agree, 1 is the
        same; ``scales, two quarters``: relative distance of two steps of a
        quarter to one of a half, 0 if both are one flow. ``diagonals``:
        relative distance of learned diagonals to those that A and B derive.
        ``loss if copied``: the loss with A = B = 0 by the loss.

    Raises:
        UserError: The model lacks one of the scales, or linear models.
    """
    scales = list(linear_models(model.predictor))
    if scales != list(SCALES):
        raise UserError(
            f'the predictor has linear models of {scales or "no scale"}, and '
            f'both of {list(SCALES)} are compared: give a model with '
            "prediction='linear' and position='mixed'")
    report = describe_predictor(model.predictor)
    across = report.pop('across_scales').values()
    matrices = [scale[name] for scale in report.values() for name in 'AB']
    gaps = [gap for scale in report.values()
            for name, gap in scale['gap_to_derived'].items() if '_' in name]
    return {
        'rank': mean(m['rank'] / m['dims'] for m in matrices),
        'complex eigenvalues': mean(m['complex_share'] for m in matrices),
        'spectral norm': mean(m['spectral_norm'] for m in matrices),
        'scales, spectra': mean(scale['overlap'] for scale in across),
        'scales, two quarters': mean(
            scale['gap_of_two_quarters'] for scale in across),
        **({'diagonals': mean(gaps)} if gaps else {}),
        'loss if copied': copied_loss(model, images) / masked_loss(
            model, images),
    }
