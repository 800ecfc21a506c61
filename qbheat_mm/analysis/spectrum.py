# Copyright (c) QB-Heat MM authors. All rights reserved.
r"""Spectra of the learned matrices A and B.

Section 6.2 and Figure 7: sorted magnitudes of the eigenvalues at both scales,
their alignment across scales, the spectrum energy (Equation 7)
:math:`E = \sum_k |\lambda_k|` and the ratio E(A) / E(B).

The learned matrices M include the step (``M = dx * A``); with equal steps
along x and y it cancels in all ratios.
"""
from collections.abc import Sequence

import torch
from torch import Tensor

from ..models.selfsup import QBHeatPredictor
from ..report.style import BLUE, GREY, VERMILION, in_style, new_figure
from .matrices import SCALES, derive, learned_matrices

#: A and B are the matrices of these directions.
MATRICES = dict(A='right', B='down')
#: The steps in tables and figures.
STEPS = dict(quarter='Δ = W/4', half='Δ = W/2')

_LOOKS = dict(quarter=(BLUE, '-', 'o'), half=(VERMILION, '--', '^'))


def eigenvalues(matrix: Tensor) -> Tensor:
    """Compute the complex eigenvalues (D, ) by descending magnitude."""
    values = torch.linalg.eigvals(matrix.double())
    return values[values.abs().argsort(descending=True)]


def normalized_magnitudes(values: Tensor) -> Tensor:
    """Magnitudes of sorted eigenvalues, divided by their sum, (D, )."""
    return values.abs() / values.abs().sum()


def overlap(values: Tensor, others: Tensor) -> float:
    """Sum of the smaller of each pair of normalized magnitudes, up to 1.

    A correlation would be high for any two sorted lists.
    """
    return float(torch.minimum(normalized_magnitudes(values),
                               normalized_magnitudes(others)).sum())


def random_like(matrices: dict[str, dict[str, Tensor]]) -> dict:
    """Gaussian matrices of the norms of :func:`learned_matrices`, seeded."""
    generator = torch.Generator().manual_seed(0)

    def draw(matrix: Tensor) -> Tensor:
        entries = torch.randn(matrix.shape, generator=generator,
                              dtype=matrix.dtype)
        return entries * (matrix.norm() / entries.norm())

    drawn = {}
    for scale, directions in matrices.items():
        drawn[scale] = {direction: draw(matrix)
                        for direction, matrix in directions.items()}
    return drawn


def random_magnitudes(dims: int, frobenius: float) -> Tensor:
    """Expected sorted magnitudes of a random matrix, (dims, ).

    The eigenvalues of a large matrix of independent entries fill a disc of
    radius ``frobenius / sqrt(dims)`` evenly (the circular law).
    """
    rank = (torch.arange(dims, dtype=torch.float64) + 0.5) / dims
    return frobenius / dims**0.5 * (1 - rank).sqrt()


def commutator(a: Tensor, b: Tensor) -> float:
    """``|AB - BA| / |AB|`` in the Frobenius norm.

    0 for commuting matrices, as the derivation of the diagonals assumes; near
    sqrt(2) for independent random ones.
    """
    return relative_gap(b @ a, a @ b)


def relative_gap(actual: Tensor, expected: Tensor) -> float:
    """``|actual - expected| / |expected|`` in the Frobenius norm."""
    return float((actual - expected).norm() / expected.norm())


def describe_matrix(matrix: Tensor) -> dict[str, float]:
    """Describe one matrix (D, D).

    Returns:
        dict[str, float]: ``dims``, ``rank``, ``complex_share`` (of the
        eigenvalues), ``energy`` (sum of their magnitudes),
        ``spectral_radius`` (largest magnitude) and ``spectral_norm``
        (largest singular value).
    """
    values = eigenvalues(matrix)
    # Rounding in double precision stays far below this.
    is_complex = values.imag.abs() > 1e-9 * values[0].abs()
    return dict(
        dims=len(matrix),
        rank=int(torch.linalg.matrix_rank(matrix.double())),
        complex_share=float(is_complex.double().mean()),
        energy=float(values.abs().sum()),
        spectral_radius=float(values[0].abs()),
        spectral_norm=float(torch.linalg.matrix_norm(matrix.double(), ord=2)))


def describe_predictor(predictor: QBHeatPredictor) -> dict[str, dict]:
    """Describe all matrices of a predictor.

    Returns:
        dict[str, dict]: As from :func:`describe_matrices`; each scale also has
        ``gap_to_derived``, the distance of each other explicit matrix from
        the one that A and B derive.
    """
    matrices = learned_matrices(predictor)
    report = describe_matrices(matrices)
    for scale, explicit in matrices.items():
        derived = derive(explicit[MATRICES['A']], explicit[MATRICES['B']])
        gaps = {}
        for name in predictor.linear_models()[scale].explicit:
            if name not in MATRICES.values():
                gaps[name] = relative_gap(explicit[name], derived[name])
        report[scale]['gap_to_derived'] = gaps
    return report


def describe_matrices(
        matrices: dict[str, dict[str, Tensor]]) -> dict[str, dict]:
    """Describe A and B at each scale.

    Args:
        matrices (dict): From :func:`~.matrices.learned_matrices`.

    Returns:
        dict[str, dict]: For each scale ``A`` and ``B`` (see
        :func:`describe_matrix`), ``energy_ratio`` E(A) / E(B) and
        ``commutator``. With two scales also ``across_scales``: for A and B
        the ``overlap`` of the spectra and ``gap_of_two_quarters``, the
        distance of two steps of a quarter from one of a half.
    """
    report = {}
    for scale, directions in matrices.items():
        a, b = directions[MATRICES['A']], directions[MATRICES['B']]
        of_a, of_b = describe_matrix(a), describe_matrix(b)
        report[scale] = dict(
            A=of_a, B=of_b, energy_ratio=of_a['energy'] / of_b['energy'],
            commutator=commutator(a, b))
    if len(matrices) == len(SCALES):
        report['across_scales'] = across = {}
        for name, direction in MATRICES.items():
            quarter = matrices['quarter'][direction]
            half = matrices['half'][direction]
            across[name] = dict(
                overlap=overlap(eigenvalues(quarter), eigenvalues(half)),
                # (I + M)^2 = I + (2 M + M^2)
                gap_of_two_quarters=relative_gap(
                    2 * quarter + quarter @ quarter, half))
    return report


@in_style()
def draw_spectra(matrices: dict[str, dict[str, Tensor]]):
    """Draw magnitudes of :func:`learned_matrices`, and their alignment."""
    columns = len(matrices)
    figure = new_figure(3.2 * columns, 5.6)
    axes = figure.subplots(2, columns, squeeze=False)
    for row, (name, direction) in zip(axes, MATRICES.items()):
        chosen, values = {}, {}
        for scale, by_direction in matrices.items():
            chosen[scale] = by_direction[direction]
            values[scale] = eigenvalues(chosen[scale])
        _draw_magnitudes(row[0], name, values, chosen)
        if len(values) == len(SCALES):
            _draw_alignment(row[1], name, values)
    return figure


def _draw_magnitudes(axis, name: str, values: dict, matrices: dict) -> None:
    for scale, of_scale in values.items():
        color, dashes, _ = _LOOKS[scale]
        rank = torch.arange(1, len(of_scale) + 1)
        axis.plot(rank, of_scale.abs(), dashes, color=color,
                  label=STEPS[scale])
        axis.plot(rank, random_magnitudes(
            len(of_scale), float(matrices[scale].norm())), ':', color=color,
            linewidth=1, label='random, same norm')
    axis.set(xlabel='rank k', ylabel='magnitude |λ|',
             title=f'Eigenvalues of Δ·{name}', ylim=(0, None))
    axis.legend()


def _draw_alignment(axis, name: str, values: dict) -> None:
    quarter = normalized_magnitudes(values['quarter'])
    half = normalized_magnitudes(values['half'])
    top = 1.05 * float(max(quarter.max(), half.max()))
    axis.plot([0, top], [0, top], color=GREY, linewidth=1,
              label='equal spectra')
    axis.plot(quarter, half, '.', color=BLUE, markersize=3,
              label='k-th eigenvalues')
    axis.set(xlabel='|λ| / Σ|λ| at W/4', ylabel='|λ| / Σ|λ| at W/2',
             title=f'{name} across scales', xlim=(0, top), ylim=(0, top),
             aspect='equal')
    axis.ticklabel_format(style='sci', scilimits=(0, 0), axis='both')
    axis.legend(loc='upper left')


@in_style()
def draw_energy_ratios(times: Sequence[int],
                       ratios: dict[str, Sequence[float]],
                       unit: str = 'epoch'):
    """Draw E(A) / E(B) of several checkpoints (Table 3).

    Args:
        times (Sequence[int]): Epochs of the checkpoints, ascending.
        ratios (dict[str, Sequence[float]]): By scale.
        unit (str): Unit of ``times``. Defaults to ``'epoch'``.
    """
    figure = new_figure(4.5, 3.2)
    axis = figure.subplots()
    for scale, values in ratios.items():
        color, dashes, marker = _LOOKS[scale]
        axis.plot(times, values, dashes, marker=marker, color=color,
                  label=STEPS[scale])
    axis.axhline(1, color=GREY, linewidth=0.8, linestyle=':',
                 label='equal energy')
    # In a narrow range noise would look like a trend.
    low, high = axis.get_ylim()
    axis.set(xlabel=unit, ylabel='spectrum energy ratio E(A) / E(B)',
             title='Horizontal over vertical energy',
             ylim=(min(low, 0.9), max(high, 1.1)))
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend()
    return figure
