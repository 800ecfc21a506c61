# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One style for all figures, readable on light and dark pages.

Matplotlib is imported when a figure is drawn: not all reports have any.
"""
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The color-blind safe palette of Okabe and Ito.
COLORS = ('#0072B2', '#D55E00', '#009E73', '#E69F00', '#CC79A7', '#56B4E9')
BLUE, VERMILION, GREEN, *_ = COLORS
#: Color of text and axes, readable on white and on black.
GREY = '#787878'

_SETTINGS = {
    'font.family': 'DejaVu Sans',
    'font.size': 9,
    'axes.titlesize': 10,
    'axes.labelsize': 9,
    'legend.fontsize': 8,
    'xtick.labelsize': 8,
    'ytick.labelsize': 8,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'lines.linewidth': 1.5,
    'legend.frameon': False,
    'savefig.transparent': True,
    **dict.fromkeys(('text.color', 'axes.labelcolor', 'axes.edgecolor',
                     'xtick.color', 'ytick.color'), GREY),
    'axes.prop_cycle': "cycler('linestyle', ['-', '--', ':', '-.'])"
                       f"*cycler('color', {COLORS})",
    'text.parse_math': False,  # file and class names may contain "$"
}


@contextmanager
def in_style() -> Iterator[None]:
    """Apply the style; needed both for drawing and for saving."""
    import matplotlib
    with matplotlib.rc_context(_SETTINGS):
        yield


def new_figure(width: float, height: float) -> 'Figure':
    """Create a figure of this size in inches, without pyplot."""
    from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout='constrained')


def picture_rows(rows):
    """Draw rows of pictures under the titles of the first row.

    Args:
        rows (Sequence[dict[str, np.ndarray]]): Title to picture, (H, W, 3).

    Returns:
        tuple: Figure and axes, (rows, columns).
    """
    ratios = []
    for row in rows:
        height, width, _ = next(iter(row.values())).shape
        ratios.append(height / width)
    figure = new_figure(1.9 * len(rows[0]) + 0.4, 1.8 * sum(ratios) + 0.5)
    axes = figure.subplots(len(rows), len(rows[0]), squeeze=False,
                           height_ratios=ratios)
    for i, row in enumerate(rows):
        for axis, (title, picture) in zip(axes[i], row.items()):
            show_picture(axis, picture, '' if i else title)
    return figure, axes


def show_picture(axes, picture, title: str = '') -> None:
    """Show an image without ticks."""
    axes.imshow(picture, interpolation='nearest')
    axes.set_title(title, fontsize=9)
    bare(axes)


def bare(axes) -> None:
    """Remove ticks and frame."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
