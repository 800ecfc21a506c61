# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Original, visible quarter and reconstruction."""
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..reconstruction import GREY_LEVELS_PER_STD
from .style import as_written, grid, in_style, new_figure, show_picture

#: Titles of the reconstructions by where their statistics come from. They
#: are a part of the picture: nobody should mistake one for another.
TITLES = dict(
    contrast='reconstruction\n(contrast around mid-grey,\n'
    f'{GREY_LEVELS_PER_STD} levels per std)',
    visible='reconstruction\n(brightness and contrast from\n'
    'the visible quarter)',
    true='TRUE PATCH STATISTICS\n(brightness and contrast taken\n'
    'from the masked pixels)',
    pixels='reconstruction\n(pixels as predicted)')


@dataclass(frozen=True)
class Row:
    """One image reconstructed from one position.

    Attributes:
        label (str): The image's name and the position.
        error (float): Loss over the masked patches.
        pictures (dict[str, np.ndarray]): ``'original'``, ``'given'`` and
            the reconstructions by their key of :data:`TITLES`; (H, W, 3),
            RGB, uint8.
    """
    label: str
    error: float
    pictures: dict


def draw_reconstructions(rows: Sequence[Row]):
    """One row of pictures for each image and position.

    Returns:
        matplotlib.figure.Figure: original | visible quarter | one column
        for each way of showing the reconstruction.
    """
    columns: list[tuple[str, str]] = [('original', 'original'),
                                      ('given', 'visible quarter')]
    columns += [(key, TITLES[key]) for key in TITLES
                if key in rows[0].pictures]
    with in_style():
        ratios = [row.pictures['original'].shape[0] /
                  row.pictures['original'].shape[1] for row in rows]
        figure = new_figure(1.9 * len(columns) + 0.4, 1.75 * sum(ratios) + 0.6)
        axes = grid(figure, len(rows), len(columns), height_ratios=ratios)
        for i, row in enumerate(rows):
            for j, (key, title) in enumerate(columns):
                show_picture(axes[i, j], np.asarray(row.pictures[key]),
                             title if i == 0 else '')
                if key == 'true':
                    _frame(axes[i, j])
            axes[i, 0].set_ylabel(
                f'{as_written(row.label)}\nerror {row.error:.3f}')
        for axis in axes[0]:
            axis.title.set_fontsize(8)
    return figure


def _frame(axis) -> None:
    """A dashed frame marks what was not honestly predicted."""
    for spine in axis.spines.values():
        spine.set(visible=True, linestyle='--', linewidth=2, color='#D55E00')
