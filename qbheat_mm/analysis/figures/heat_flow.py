# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The rolled-out linear system beside the encoder's features."""
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .style import (
    BLUE,
    GREEN,
    GREY,
    VERMILION,
    grid,
    in_style,
    new_figure,
    show_picture,
)

_ERROR_TOP = 2.5


@dataclass(frozen=True)
class Rollout:
    """One image and its fields.

    Attributes:
        picture (np.ndarray): (H, W, 3), RGB, uint8.
        fields (dict[str, np.ndarray]): Title to colours, (h, w, 3) in
            [0, 1]; the encoder's features first.
        start (tuple[int, int]): Column and row of the start.
    """
    picture: np.ndarray
    fields: dict[str, np.ndarray]
    start: tuple


def draw_rollouts(rollouts: Sequence[Rollout]):
    """Image, real features and flows, one row for each image.

    Returns:
        matplotlib.figure.Figure: Colours are principal components.
    """
    columns = 1 + len(rollouts[0].fields)
    with in_style():
        height, width = rollouts[0].picture.shape[:2]
        figure = new_figure(1.9 * columns,
                            1.85 * height / width * len(rollouts) + 0.3)
        axes = grid(figure, len(rollouts), columns)
        for i, rollout in enumerate(rollouts):
            show_picture(axes[i, 0], rollout.picture, '' if i else 'image')
            for axis, (title, field) in zip(axes[i, 1:],
                                            rollout.fields.items()):
                show_picture(axis, np.asarray(field), '' if i else title)
                axis.plot(*rollout.start, 's', markersize=6,
                          markerfacecolor='none', markeredgecolor='white',
                          markeredgewidth=2)
                axis.plot(*rollout.start, 's', markersize=6,
                          markerfacecolor='none', markeredgecolor='black',
                          markeredgewidth=0.8)
        for axis in axes[0]:
            axis.title.set_fontsize(8)
    return figure


def draw_errors(errors: dict[str, dict[str, dict[str, np.ndarray]]],
                trained: dict[str, int | None]):
    """Error of the flow by its distance from the start.

    Args:
        errors (dict): Reading (``'exact'``, ``'euler'``) to what
            :func:`~qbheat_mm.analysis.heat_flow.error_by_distance` returns.
        trained (dict[str, int | None]): By direction, the distance in
            positions that training predicts over, to mark.

    Returns:
        matplotlib.figure.Figure: One panel for each direction.
    """
    titles = dict(right='to the right', down='downwards',
                  right_down='to the right and down')
    looks = dict(exact=(BLUE, '-', 'o'), euler=(VERMILION, '--', '^'))
    with in_style():
        figure = new_figure(9.0, 3.2)
        axes = grid(figure, 1, len(titles), sharey=True)[0]
        for axis, (name, title) in zip(axes, titles.items()):
            for reading, found in errors.items():
                colour, dashes, marker = looks[reading]
                axis.plot(found[name]['flow'], dashes, marker=marker,
                          markersize=3, color=colour,
                          label=f'linear flow ({reading})')
            constant = next(iter(errors.values()))[name]['constant']
            axis.plot(constant, ':', color=GREEN, marker='s', markersize=3,
                      label='constant (A = B = 0)')
            axis.axhline(1, color=GREY, linewidth=0.8, linestyle='-',
                         label='mean feature')
            if trained[name] is not None:
                axis.axvline(trained[name], color=GREY, linewidth=0.8,
                             linestyle=':', label='trained step')
            axis.set(title=title, xlabel='distance in positions',
                     ylim=(0, _ERROR_TOP))
            axis.xaxis.get_major_locator().set_params(integer=True)
        axes[0].set_ylabel('error / spread of the features')
        axes[-1].legend(*axes[0].get_legend_handles_labels(),
                        loc='upper left', bbox_to_anchor=(1.02, 1))
    return figure
