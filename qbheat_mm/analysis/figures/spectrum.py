# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Spectra of A and B (Figure "Spectrum of matrices A and B")."""
from collections.abc import Sequence

import numpy as np
import torch

from ..spectrum import normalized_magnitudes, random_magnitudes
from .style import BLUE, GREY, VERMILION, grid, in_style, new_figure

_NAMES = dict(A=('A', r'\lambda', 'right'), B=('B', r'\pi', 'down'))
_SCALES = dict(
    quarter=('W/4', BLUE, '-'), half=('W/2', VERMILION, '--'))


def draw_spectra(spectra: dict[str, dict[str, torch.Tensor]],
                 frobenius: dict[str, dict[str, float]]):
    """Sorted magnitudes, alignment across scales, and the complex plane.

    Args:
        spectra (dict): Scale (``'quarter'``, ``'half'``) and matrix (``'A'``,
            ``'B'``) to complex eigenvalues (D, ).
        frobenius (dict): Likewise to the norm of the matrix.

    Returns:
        matplotlib.figure.Figure: Rows A and B; the middle column is left out
        for a model of one scale.
    """
    both = len(spectra) == 2
    with in_style():
        figure = new_figure(9.0 if both else 6.2, 5.6)
        axes = grid(figure, 2, 3 if both else 2)
        for row, name in zip(axes, _NAMES):
            values = {scale: found[name] for scale, found in spectra.items()}
            norms = {scale: found[name] for scale, found in frobenius.items()}
            _draw_magnitudes(row[0], name, values, norms)
            if both:
                _draw_alignment(row[1], name, values)
            _draw_plane(row[-1], name, values)
    return figure


def _draw_magnitudes(axis, name: str, values: dict, norms: dict) -> None:
    letter, symbol, _ = _NAMES[name]
    for i, (scale, found) in enumerate(values.items()):
        step, colour, dashes = _SCALES[scale]
        rank = np.arange(1, len(found) + 1)
        axis.plot(rank, found.abs(), dashes, color=colour,
                  label=rf'$\Delta {letter}$, $\Delta$ = {step}')
        axis.plot(rank, random_magnitudes(len(found), norms[scale]), ':',
                  color=colour, linewidth=1,
                  label=None if i else 'random, same norm')
    axis.set(xlabel='rank k', ylabel=rf'magnitude $|{symbol}_k|$',
             title=rf'Eigenvalues of $\Delta {letter}$', ylim=(0, None))
    axis.legend()


def _draw_alignment(axis, name: str, values: dict) -> None:
    letter, symbol, _ = _NAMES[name]
    quarter, half = (
        normalized_magnitudes(values[scale]) for scale in ('quarter', 'half'))
    top = 1.05 * float(max(quarter.max(), half.max()))
    axis.plot([0, top], [0, top], color=GREY, linewidth=1,
              label='equal spectra')
    axis.plot(quarter, half, '.', color=BLUE, markersize=3,
              label=r'k-th eigenvalues')
    axis.set(xlabel=rf'$|{symbol}_k|\,/\,\Sigma$ at W/4',
             ylabel=rf'$|{symbol}_k|\,/\,\Sigma$ at W/2',
             title=f'{letter} across scales', xlim=(0, top), ylim=(0, top),
             aspect='equal')
    axis.ticklabel_format(style='sci', scilimits=(0, 0), axis='both')
    axis.legend(loc='upper left')


def _draw_plane(axis, name: str, values: dict) -> None:
    letter, symbol, _ = _NAMES[name]
    for marker, (scale, found) in zip('o^', values.items()):
        step, colour, _ = _SCALES[scale]
        axis.plot(found.real, found.imag, marker, color=colour, markersize=2.5,
                  alpha=0.6, label=rf'$\Delta$ = {step}')
    axis.axhline(0, color=GREY, linewidth=0.5)
    axis.axvline(0, color=GREY, linewidth=0.5)
    axis.set(xlabel=rf'Re ${symbol}_k$', ylabel=rf'Im ${symbol}_k$',
             title=rf'$\Delta {letter}$ in the complex plane')
    reach = 1.1 * max(float(found.abs().max()) for found in values.values())
    # Room above the disc of eigenvalues for the legend.
    axis.set(xlim=(-reach, reach), ylim=(-reach, 1.5 * reach), aspect='equal')
    axis.legend(loc='upper right', ncols=2, handletextpad=0.1)


def draw_energy_ratios(times: Sequence[int],
                       ratios: dict[str, Sequence[float]],
                       unit: str = 'epoch'):
    """E(A) / E(B) of many checkpoints (Table "energy-ratio").

    Args:
        times (Sequence[int]): Epochs of the checkpoints, rising.
        ratios (dict[str, Sequence[float]]): By scale.
        unit (str): What ``times`` counts. Defaults to ``'epoch'``.

    Returns:
        matplotlib.figure.Figure: One line for each scale.
    """
    with in_style():
        figure = new_figure(4.5, 3.2)
        axis = figure.subplots()
        for marker, (scale, values) in zip('o^', ratios.items()):
            step, colour, dashes = _SCALES[scale]
            axis.plot(times, values, dashes, marker=marker, color=colour,
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
