# Copyright (c) QB-Heat MM authors. All rights reserved.
r"""Spectra of the learned matrices A and B.

Section "Interesting Observations in Matrices A, B" and the figure "Spectrum
of matrices A and B": sorted magnitudes of the eigenvalues at both scales,
their alignment across scales, the spectrum energy
:math:`E = \sum_k |\lambda_k|` and the ratio E(A) / E(B).

The matrices are the learned M, which include the step (``M = dx * A``): with
equal steps along x and y no ratio depends on it.
"""
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..models.selfsup import QBHeatPredictor
from ..models.selfsup.qbheat_predictor import DIRECTIONS
from .matrices import SCALES, derive, learned_matrices, linear_models
from .style import BLUE, GREY, VERMILION, grid, in_style, new_figure

#: A and B are the matrices of these directions.
MATRICES = dict(A='right', B='down')

# An eigenvalue counts as complex if its imaginary part exceeds this share of
# the largest magnitude; double precision leaves far less to a real one.
_REAL = 1e-9
_SYMBOLS = dict(A=r'\lambda', B=r'\pi')
_LOOKS = dict(quarter=('W/4', BLUE, '-', 'o'), half=('W/2', VERMILION, '--',
                                                     '^'))


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
    """How far two sorted, normalized spectra agree, up to 1.

    The sum of the smaller of each pair. A correlation would say little: any
    two sorted lists are correlated.
    """
    pair = torch.stack(
        [normalized_magnitudes(values), normalized_magnitudes(others)])
    return float(pair.min(dim=0).values.sum())


def random_magnitudes(dims: int, frobenius: float) -> Tensor:
    """Sorted magnitudes that a random matrix would have, (dims, ).

    Eigenvalues of a large matrix of independent entries fill a disc of
    radius ``frobenius / sqrt(dims)`` evenly (the circular law). What differs
    from this curve was learned.
    """
    rank = (torch.arange(dims, dtype=torch.float64) + 0.5) / dims
    return frobenius / dims**0.5 * (1 - rank).sqrt()


def commutator(a: Tensor, b: Tensor) -> float:
    """``|AB - BA| / |AB|`` in the Frobenius norm.

    0 for commuting matrices, which the derivation of the diagonals assumes;
    near sqrt(2) for independent random ones.
    """
    return relative_gap(b @ a, a @ b)


def relative_gap(found: Tensor, expected: Tensor) -> float:
    """``|found - expected| / |expected|`` in the Frobenius norm."""
    return float((found - expected).norm() / expected.norm())


def describe_matrix(matrix: Tensor) -> dict[str, float]:
    """Describe one matrix (D, D).

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
    """Describe all matrices of a predictor.

    Returns:
        dict[str, dict]: For each scale ``step`` (share of the image's side),
        ``num_models``, ``A`` and ``B`` (see :func:`describe_matrix`),
        ``energy_ratio`` E(A) / E(B), ``commutator``, and
        ``gap_to_derived``: the distance of each explicit direction but right
        and down to what A and B derive for it. With two scales also
        ``across_scales``: for A and B ``overlap`` of the spectra and
        ``gap_of_two_quarters``, the distance of two steps of a quarter to
        one of a half.
    """
    linear, matrices = linear_models(predictor), learned_matrices(predictor)
    report = {scale: _describe_scale(scale, found, linear[scale].explicit)
              for scale, found in matrices.items()}
    if len(matrices) == len(SCALES):
        report['across_scales'] = across = {}
        for name, direction in MATRICES.items():
            quarter, half = (matrices[scale][direction] for scale in SCALES)
            across[name] = dict(
                overlap=overlap(eigenvalues(quarter), eigenvalues(half)),
                # (I + M)^2 = I + (2 M + M^2)
                gap_of_two_quarters=relative_gap(
                    2 * quarter + quarter @ quarter, half))
    return report


def _describe_scale(scale: str, matrices: dict[str, Tensor],
                    explicit: Sequence[str]) -> dict:
    a, b = (matrices[direction] for direction in MATRICES.values())
    derived = derive(a, b)
    found = dict(A=describe_matrix(a), B=describe_matrix(b))
    return dict(
        step=SCALES[scale][1],
        num_models=len(explicit),
        **found,
        energy_ratio=found['A']['energy'] / found['B']['energy'],
        commutator=commutator(a, b),
        gap_to_derived={
            name: relative_gap(matrices[name], derived[name])
            for name in DIRECTIONS
            if name in explicit and name not in MATRICES.values()
        })


@in_style()
def draw_spectra(matrices: dict[str, dict[str, Tensor]]):
    """Draw magnitudes, their alignment across scales and the complex plane.

    Args:
        matrices (dict): Of :func:`~.matrices.learned_matrices`. With one
            scale there is no alignment.
    """
    both = len(matrices) == 2
    figure = new_figure(9.0 if both else 6.2, 5.6)
    axes = grid(figure, 2, 3 if both else 2)
    for row, (name, direction) in zip(axes, MATRICES.items()):
        chosen = {scale: m[direction] for scale, m in matrices.items()}
        values = {scale: eigenvalues(m) for scale, m in chosen.items()}
        _draw_magnitudes(row[0], name, values, chosen)
        if both:
            _draw_alignment(row[1], name, values)
        _draw_plane(row[-1], name, values)
    return figure


def _draw_magnitudes(axis, name: str, values: dict, matrices: dict) -> None:
    for i, (scale, found) in enumerate(values.items()):
        step, color, dashes, _ = _LOOKS[scale]
        rank = np.arange(1, len(found) + 1)
        axis.plot(rank, found.abs(), dashes, color=color,
                  label=rf'$\Delta {name}$, $\Delta$ = {step}')
        axis.plot(rank, random_magnitudes(
            len(found), float(matrices[scale].norm())), ':', color=color,
            linewidth=1, label=None if i else 'random, same norm')
    axis.set(xlabel='rank k', ylabel=rf'magnitude $|{_SYMBOLS[name]}_k|$',
             title=rf'Eigenvalues of $\Delta {name}$', ylim=(0, None))
    axis.legend()


def _draw_alignment(axis, name: str, values: dict) -> None:
    quarter, half = (normalized_magnitudes(values[scale]) for scale in SCALES)
    top = 1.05 * float(max(quarter.max(), half.max()))
    axis.plot([0, top], [0, top], color=GREY, linewidth=1,
              label='equal spectra')
    axis.plot(quarter, half, '.', color=BLUE, markersize=3,
              label='k-th eigenvalues')
    symbol = rf'$|{_SYMBOLS[name]}_k|\,/\,\Sigma$'
    axis.set(xlabel=f'{symbol} at W/4', ylabel=f'{symbol} at W/2',
             title=f'{name} across scales', xlim=(0, top), ylim=(0, top),
             aspect='equal')
    axis.ticklabel_format(style='sci', scilimits=(0, 0), axis='both')
    axis.legend(loc='upper left')


def _draw_plane(axis, name: str, values: dict) -> None:
    for scale, found in values.items():
        step, color, _, marker = _LOOKS[scale]
        axis.plot(found.real, found.imag, marker, color=color, markersize=2.5,
                  alpha=0.6, label=rf'$\Delta$ = {step}')
    axis.axhline(0, color=GREY, linewidth=0.5)
    axis.axvline(0, color=GREY, linewidth=0.5)
    symbol = f'{_SYMBOLS[name]}_k'
    axis.set(xlabel=f'Re ${symbol}$', ylabel=f'Im ${symbol}$',
             title=rf'$\Delta {name}$ in the complex plane')
    reach = 1.1 * max(float(found.abs().max()) for found in values.values())
    # Room above the disc of eigenvalues for the legend.
    axis.set(xlim=(-reach, reach), ylim=(-reach, 1.5 * reach), aspect='equal')
    axis.legend(loc='upper right', ncols=2, handletextpad=0.1)


@in_style()
def draw_energy_ratios(times: Sequence[int],
                       ratios: dict[str, Sequence[float]],
                       unit: str = 'epoch'):
    """Draw E(A) / E(B) of several checkpoints (Table "energy-ratio").

    Args:
        times (Sequence[int]): Epochs of the checkpoints, rising.
        ratios (dict[str, Sequence[float]]): By scale.
        unit (str): Unit of ``times``. Defaults to ``'epoch'``.
    """
    figure = new_figure(4.5, 3.2)
    axis = figure.subplots()
    for scale, values in ratios.items():
        step, color, dashes, marker = _LOOKS[scale]
        axis.plot(times, values, dashes, marker=marker, color=color,
                  label=rf'$\Delta$ = {step}')
    axis.axhline(1, color=GREY, linewidth=0.8, linestyle=':',
                 label='equal energy')
    axis.set(xlabel=unit, ylabel='spectrum energy ratio E(A) / E(B)',
             title='Horizontal over vertical energy')
    # Not so close that noise would look like a trend.
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, 0.9), max(high, 1.1))
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend()
    return figure
