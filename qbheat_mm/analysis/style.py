# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One look for all figures: printable, and safe for the color-blind.

Matplotlib, an optional dependency, is imported when something is drawn.
"""
from contextlib import contextmanager

#: The palette of Okabe and Ito, in the order of use.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = (
    '#0072B2', '#E69F00', '#009E73', '#D55E00', '#CC79A7', '#56B4E9')
COLORS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
GREY = '#7F7F7F'

#: Color map of magnitudes, readable in greyscale as well.
MAP = 'viridis'

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
}


@contextmanager
def in_style():
    """Apply our settings, for drawing and for saving alike."""
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        yield


def new_figure(width: float, height: float):
    """Create a figure (size in inches) that pyplot knows nothing of."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout='constrained')


def as_written(name: str) -> str:
    """Escape a name so that matplotlib draws it literally.

    Text between dollars would be typeset as mathematics, and file names may
    hold bytes that are no text.
    """
    text = name.encode('utf-8', 'surrogateescape').decode('utf-8', 'replace')
    return text.replace('$', r'\$')


def show_picture(axes, picture, title: str = '') -> None:
    """Show an image without ticks."""
    axes.imshow(picture, interpolation='nearest')
    axes.set_title(title)
    bare(axes)


def bare(axes) -> None:
    """Remove ticks and frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def grid(figure, rows: int, columns: int, **kwargs):
    """Add axes as a 2D array, also for a single row or column."""
    return figure.subplots(rows, columns, squeeze=False, **kwargs)
