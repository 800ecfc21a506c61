# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Figures of what a detector finds, confuses and misses."""
from collections.abc import Sequence

import numpy as np

from ..detections import Match
from .style import (
    BLUE,
    MAP,
    VERMILION,
    as_written,
    bare,
    grid,
    in_style,
    new_figure,
)

_COLUMNS = 4


@in_style()
def draw_confusions(table: np.ndarray, names: Sequence[str]):
    """Draw how often what there is was found as what.

    Args:
        table (ndarray): Of :func:`confusions`, (C + 1, C + 1).
        names (Sequence[str]): Of the C classes.
    """
    side = min(2.5 + 0.4 * len(table), 16)
    figure = new_figure(side + 0.5, side)
    axes = figure.subplots()
    names = list(map(as_written, names))
    share = table / table.sum(1, keepdims=True).clip(min=1)
    axes.imshow(share, cmap=MAP, vmin=0, vmax=1)
    if len(table) <= 25:
        for (row, column), value in np.ndenumerate(table):
            axes.text(column, row, value, ha='center', va='center',
                      fontsize=7, color='black' if share[row, column] > 0.6
                      else 'white')
    axes.set_xticks(range(len(table)), [*names, 'missed'], rotation=90)
    axes.set_yticks(range(len(table)), [*names, 'nothing'])
    axes.set(xlabel='found as', ylabel='what there is')
    axes.set_title('number of objects; colour: share of the row')
    return figure


@in_style()
def draw_sizes(found: dict[str, tuple[int, int]], precision: dict):
    """Draw recall and AP by size, side by side.

    Args:
        found (dict): Of :func:`recall_by_size`.
        precision (dict): Size to COCO's AP, NaN where there is no object.
    """
    figure = new_figure(4.5, 2.6)
    axes = figure.subplots()
    places = np.arange(len(found))
    recall = [hit / total if total else 0 for hit, total in found.values()]
    axes.bar(places - 0.2, recall, 0.4, color=BLUE, label='recall')
    axes.bar(places + 0.2, np.nan_to_num([precision[size] for size in found]),
             0.4, color=VERMILION, label='AP')
    axes.set_xticks(places, [
        f'{size}\n{total} objects' for size, (_, total) in found.items()])
    axes.set(ylim=(0, 1))
    axes.legend()
    return figure


@in_style()
def draw_errors(pictures: Sequence[np.ndarray], matches: Sequence[Match],
                names: Sequence[str]):
    """Draw images with what was missed, and what was found and is wrong.

    Args:
        pictures (Sequence[ndarray]): RGB, (H, W, 3), one or more.
        matches (Sequence[Match]): Of the same images.
        names (Sequence[str]): Of the classes.
    """
    rows = -(-len(pictures) // _COLUMNS)
    figure = new_figure(2.4 * _COLUMNS, 2.5 * rows)
    all_axes = list(grid(figure, rows, _COLUMNS).flat)
    for axes in all_axes:
        bare(axes)
    for axes, picture, match in zip(all_axes, pictures, matches):
        axes.imshow(picture)
        for i in np.flatnonzero(~match.correct):
            _box(axes, match.truth, i, names, BLUE, '--')
        right = set(match.of_truth[match.correct])
        for i in range(len(match.found)):
            if i not in right:
                _box(axes, match.found, i, names, VERMILION, '-')
    return figure


def _box(axes, boxes, i, names, colour, line) -> None:
    left, top, right, bottom = boxes.corners[i]
    axes.plot([left, right, right, left, left],
              [top, top, bottom, bottom, top], line, color=colour)
    score = '' if boxes.scores is None else f' {boxes.scores[i]:.2f}'
    axes.text(left, bottom if line == '--' else top,
              as_written(names[boxes.labels[i]]) + score, fontsize=6,
              color='white', va='top' if line == '--' else 'bottom',
              clip_on=True, bbox=dict(facecolor=colour, pad=0.5, linewidth=0))
