# Copyright (c) QB-Heat MM authors. All rights reserved.
r"""Spectra of the learned matrices A and B.

Section "Interesting Observations in Matrices A, B": sorted magnitudes of the
eigenvalues at both scales, their alignment across scales, the spectrum energy
:math:`E = \sum_k |\lambda_k|` and the ratio E(A) / E(B).

The matrices are the learned M, which have the step in them (``M = dx * A``):
with equal steps along x and y no ratio depends on it.
"""


import torch
from torch import Tensor

from ..models.layers.linear_extrapolation import DIRECTIONS
from ..models.selfsup import QBHeatPredictor
from .matrices import SCALES, derive, learned_matrices, linear_models

# An eigenvalue counts as complex if its imaginary part exceeds this share of
# the largest magnitude; double precision leaves far less to a real one.
_REAL = 1e-9


def eigenvalues(matrix: Tensor) -> Tensor:
    """Complex eigenvalues of (D, D), by falling magnitude, (D, )."""
    values = torch.linalg.eigvals(matrix.double())
    return values[values.abs().argsort(descending=True)]


def energy(values: Tensor) -> float:
    """Spectrum energy: the sum of the magnitudes of eigenvalues (D, )."""
    return float(values.abs().sum())


def complex_share(values: Tensor) -> float:
    """Share of the eigenvalues (D, ) that are not real."""
    largest = values.abs().max()
    return float((values.imag.abs() > _REAL * largest).double().mean())


def normalized_magnitudes(values: Tensor) -> Tensor:
    """Sorted magnitudes of eigenvalues, divided by their sum, (D, )."""
    magnitudes = values.abs().sort(descending=True).values
    return magnitudes / magnitudes.sum()


def overlap(values: Tensor, others: Tensor) -> float:
    """How far two sorted, normalized spectra agree: 1 on the diagonal.

    The sum of the smaller of each pair. A correlation would say little, for
    any two sorted lists are correlated.
    """
    pair = torch.stack(
        [normalized_magnitudes(values), normalized_magnitudes(others)])
    return float(pair.min(dim=0).values.sum())


def random_magnitudes(dims: int, frobenius: float) -> Tensor:
    """Sorted magnitudes that a random matrix would have, (dims, ).

    Eigenvalues of a large matrix of independent entries fill a disc evenly
    (the circular law) of radius ``frobenius / sqrt(dims)``. What a figure
    shows beyond this curve is what was learned.
    """
    rank = (torch.arange(dims, dtype=torch.float64) + 0.5) / dims
    return frobenius / dims**0.5 * (1 - rank).sqrt()


def commutator(a: Tensor, b: Tensor) -> float:
    """``|AB - BA| / |AB|`` in the Frobenius norm.

    0 for commuting matrices, which the derivation of the diagonals assumes;
    near sqrt(2) for independent random ones.
    """
    product = a @ b
    return relative_gap(b @ a, product)


def relative_gap(found: Tensor, expected: Tensor) -> float:
    """``|found - expected| / |expected|`` in the Frobenius norm."""
    return float((found - expected).norm() / expected.norm())


def describe_matrix(matrix: Tensor) -> dict[str, float]:
    """Numbers of one matrix (D, D).

    Returns:
        dict[str, float]: ``dims``, ``rank``, ``complex_share``, ``energy``,
        ``spectral_radius`` (largest magnitude of an eigenvalue),
        ``spectral_norm`` (largest singular value) and ``frobenius_norm``.
    """
    values = eigenvalues(matrix)
    return dict(
        dims=len(matrix),
        rank=int(torch.linalg.matrix_rank(matrix.double())),
        complex_share=complex_share(values),
        energy=energy(values),
        spectral_radius=float(values[0].abs()),
        spectral_norm=float(torch.linalg.matrix_norm(matrix.double(), ord=2)),
        frobenius_norm=float(matrix.norm()))


def describe_predictor(predictor: QBHeatPredictor) -> dict[str, dict]:
    """Numbers of all matrices of a predictor, for 2, 4 and 8 models.

    Returns:
        dict[str, dict]: For each scale ``step`` (share of the image's side),
        ``A`` and ``B`` (see :func:`describe_matrix`), ``energy_ratio``
        E(A) / E(B), ``commutator``, and ``gap_to_derived``, for each explicit
        direction but right and down how far it is from what A and B derive
        for it. With two scales also ``across_scales``: for A and B
        ``overlap`` of the spectra and ``gap_of_two_quarters``, how far two
        steps of a quarter are from one of a half.
    """
    explicit = {
        scale: linear.explicit
        for scale, linear in linear_models(predictor).items()
    }
    matrices = learned_matrices(predictor)
    report = {
        scale: _describe_scale(scale, matrices[scale], explicit[scale])
        for scale in matrices
    }
    if len(matrices) == len(SCALES):
        report['across_scales'] = {
            name: _compare_scales(matrices['quarter'][direction],
                                  matrices['half'][direction])
            for name, direction in (('A', 'right'), ('B', 'down'))
        }
    return report


def _describe_scale(scale: str, matrices: dict[str, Tensor],
                    explicit: tuple) -> dict:
    a, b = matrices['right'], matrices['down']
    derived = derive(a, b)
    report = dict(
        step=SCALES[scale][1],
        num_models=len(explicit),
        A=describe_matrix(a),
        B=describe_matrix(b))
    report['energy_ratio'] = report['A']['energy'] / report['B']['energy']
    report['commutator'] = commutator(a, b)
    report['gap_to_derived'] = {
        name: relative_gap(matrices[name], derived[name])
        for name in DIRECTIONS
        if name in explicit and name not in ('right', 'down')
    }
    return report


def _compare_scales(quarter: Tensor, half: Tensor) -> dict[str, float]:
    # (I + M)^2 = I + (2 M + M^2)
    two_quarters = 2 * quarter + quarter @ quarter
    return dict(
        overlap=overlap(eigenvalues(quarter), eigenvalues(half)),
        gap_of_two_quarters=relative_gap(two_quarters, half))
