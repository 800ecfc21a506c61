# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a run logs, over its steps."""
from collections.abc import Mapping

from ..run_log import Points
from .style import COLOURS, as_written, grid, in_style, new_figure

_COLUMNS = 3
_DASHES = ('-', '--', ':', '-.')


def draw_curves(panels: Mapping[str, Mapping[str, Points]]):
    """One panel for each group of curves.

    Args:
        panels (Mapping): Title to names and points, as
            :func:`qbheat_mm.analysis.run_log.panels` gives them.

    Returns:
        matplotlib.figure.Figure: Three panels in a row.
    """
    rows = -(-len(panels) // _COLUMNS)
    with in_style():
        figure = new_figure(9.0, 2.5 * rows)
        axes = grid(figure, rows, _COLUMNS).flatten()
        for axis, (title, curves) in zip(axes, panels.items()):
            for i, (name, points) in enumerate(curves.items()):
                steps, values = zip(*points)
                axis.plot(steps, values, label=as_written(name),
                          color=COLOURS[i % len(COLOURS)],
                          linestyle=_DASHES[i // len(COLOURS) % len(_DASHES)],
                          marker='.' if len(points) < 30 else None)
            axis.set(title=title)
            axis.grid(alpha=0.3)
            if len(curves) > 1:
                axis.legend(fontsize=6)
        for axis in axes[len(panels):]:
            axis.set_axis_off()
    return figure
