# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Histograms of spatial correlation (Figure "moco-corr", appendix)."""


import numpy as np

from .style import COLOURS, GREY, as_written, in_style, new_figure


def draw_histograms(correlations: dict[str, np.ndarray],
                    chance: dict[str, float] | None = None):
    """One histogram for each model, over the same images.

    Args:
        correlations (dict[str, np.ndarray]): Model to mean absolute
            correlations of N images, (N, ).
        chance (dict[str, float], optional): Model to what unrelated
            positions would have.

    Returns:
        matplotlib.figure.Figure: With the means in the legend.
    """
    with in_style():
        figure = new_figure(5.2, 3.4)
        axis = figure.subplots()
        highest = max(float(np.max(v)) for v in correlations.values())
        top = min(1.0, np.ceil(highest * 10 + 0.5) / 10)
        bins = np.linspace(0, top, 41)
        dashes = ('-', '--', '-.', ':')
        for i, (name, values) in enumerate(correlations.items()):
            colour = COLOURS[i % len(COLOURS)]
            axis.hist(values, bins, color=colour, alpha=0.25)
            axis.hist(values, bins, color=colour, histtype='step',
                      linewidth=1.5, linestyle=dashes[i % len(dashes)],
                      label=f'{as_written(name)} '
                      f'(mean {np.mean(values):.3f})')
        for i, value in enumerate(sorted(set((chance or {}).values()))):
            axis.axvline(value, color=GREY, linestyle=':', linewidth=1,
                         label='unrelated positions' if i == 0 else None)
        num = len(next(iter(correlations.values())))
        axis.set(xlabel='spatial correlation (mean absolute, off-diagonal)',
                 ylabel='images', xlim=(0, top),
                 title=f'Spatial correlation over {num} images')
        axis.yaxis.get_major_locator().set_params(integer=True)
        axis.legend()
    return figure
