# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One look of all figures: fit to be printed, safe for the colour-blind."""
from contextlib import contextmanager

from ...errors import UserError

#: Okabe and Ito's palette, in the order of use.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = (
    '#0072B2', '#E69F00', '#009E73', '#D55E00', '#CC79A7', '#56B4E9')
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
GREY = '#7F7F7F'

#: Maps of magnitudes: even steps in lightness, also when printed in grey.
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
    """Matplotlib with our settings, for drawing and for saving alike."""
    with require_matplotlib().rc_context(_SETTINGS):
        yield


def new_figure(width: float, height: float):
    """An empty figure of a size in inches, drawn by Agg alone.

    It belongs to no window and to no state of pyplot.
    """
    require_matplotlib()
    from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout='constrained')


def require_matplotlib():
    """Import matplotlib, or say how to get it.

    Raises:
        UserError: If it is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise UserError('pictures need matplotlib, which is not installed: '
                        'pip install matplotlib') from error
    return matplotlib


def as_written(name: str) -> str:
    """A name of the user's as a text that matplotlib draws as it is.

    It would take what stands between two dollars for mathematics, and a
    file's name may hold bytes that are no text.
    """
    text = name.encode('utf-8', 'surrogateescape').decode('utf-8', 'replace')
    return text.replace('$', r'\$')


def show_picture(axes, picture, title: str = '') -> None:
    """Show an image without ticks."""
    axes.imshow(picture, interpolation='nearest')
    axes.set_title(title)
    bare(axes)


def bare(axes) -> None:
    """Take ticks and frame away."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def grid(figure, rows: int, columns: int, **kwargs):
    """A grid of axes that is an array also for one row or column."""
    return figure.subplots(rows, columns, squeeze=False, **kwargs)
