# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Forest plots: differences with intervals around a line at zero.

They are as wide as a phone's screen, readable on light and dark pages, and
equal answers give equal files.
"""
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from projects.study import Study
from projects.study.answers import Answer
from projects.study.comparison import Comparison
from qbheat_mm.report.style import COLORS, GREY, in_style, new_figure

#: Text has at least 12 pixels, the browsers' 9 points.
FONTS = dict.fromkeys(('font.size', 'axes.titlesize', 'axes.labelsize',
                       'xtick.labelsize', 'legend.fontsize'), 9)
#: Inches: 360 pixels, of which a phone's page of 400 has room for 368.
WIDTH = 360 / 96
LINE = 0.19
#: Characters that fit.
CHARACTERS = 52
#: Of the primary metric, and of the second.
MARKERS = dict(primary=dict(marker='D', markersize=6),
               second=dict(marker='o', markersize=6, fillstyle='none'))


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw text as text, and names of elements that do not change."""
    with in_style(), matplotlib.rc_context(
            {'svg.fonttype': 'none', 'svg.hashsalt': 'study', **FONTS}):
        yield


@contextmanager
def chart(file: Path, width: float, height: float) -> Iterator[Axes]:
    """Provide axes, and save their chart."""
    figure = new_figure(width, height)
    yield figure.subplots()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata=dict(Date=None))


def colors_of(study: Study) -> dict[str, str]:
    """A color for each set of images, the same in all figures."""
    names: dict[str, None] = {}
    for question in study.questions:
        for pair in question.pairs:
            names[pair.images] = None
    return dict(zip(names, COLORS))


def draw_forest(sections: Mapping[str, Sequence[Answer]],
                colors: Mapping[str, str], file: Path) -> None:
    """Draw a line for each pair and metric, below the names of the arms.

    Args:
        sections (Mapping[str, Sequence[Answer]]): Pairs by heading, or ''.
        colors (Mapping[str, str]): By set of images.
        file (Path): The SVG file.
    """
    lines, blocks = 0., []
    for heading, answers in sections.items():
        if heading:
            blocks.append((lines, heading, {}, ''))
            lines += 1.4
        for found in answers:
            if found.differences:
                title = textwrap.wrap(found.title, CHARACTERS)
                blocks.append((lines, '\n'.join(title), found.differences,
                               colors[found.images]))
                lines += len(title) + len(found.differences) + 0.4
    with chart(file, WIDTH, LINE * (lines + 0.5) + 0.65) as axis:
        for top, text, differences, color in blocks:
            axis.text(0, top, text, va='top',
                      transform=axis.get_yaxis_transform(),
                      weight='normal' if differences else 'bold')
            if not differences:  # a heading
                continue
            height = top + 1.5 + text.count('\n')
            axis.plot([0, 0], [height - 0.5, height - 0.5 + len(differences)],
                      color=GREY, linewidth=0.8, linestyle='-')
            for comparison, marker in zip(differences.values(), MARKERS):
                draw_difference(axis, height, comparison, color, marker)
                height += 1
        axis.set_ylim(lines, -0.2)
        axis.set_yticks([])
        axis.spines['left'].set_visible(False)
        axis.set_xlabel('difference in points')
        handles = legend(sections)
        if len(handles) > 1:
            axis.figure.legend(handles=handles, ncols=len(handles),
                               loc='outside lower center')


def draw_difference(axis: Axes, height: float, comparison: Comparison,
                    color: str, marker: str) -> None:
    """Draw seeds as points, and the mean with its interval."""
    by_seed = comparison.differences
    if len(by_seed) > 1:
        axis.plot(by_seed, [height] * len(by_seed), '.', color=GREY,
                  markersize=4)
    if not math.isnan(comparison.low):
        axis.plot([comparison.low, comparison.high], [height, height], '-',
                  color=color)
    axis.plot(comparison.mean, height, color=color, **MARKERS[marker])


def legend(sections: Mapping[str, Sequence[Answer]]) -> list[Line2D]:
    """Markers, and the metrics that they stand for."""
    metrics = {marker: {} for marker in MARKERS}
    for answers in sections.values():
        for found in answers:
            for metric, marker in zip(found.differences, MARKERS):
                metrics[marker][metric] = None
    handles = []
    for marker, names in metrics.items():
        if names:
            handles.append(Line2D([], [], color=GREY, linestyle='',
                                  label=' or '.join(names), **MARKERS[marker]))
    return handles


def describe(answers: Sequence[Answer]) -> str:
    """Say what a figure shows, for those who do not see it."""
    means = []
    for found in answers:
        for comparison in found.differences.values():
            means.append(comparison.mean)
    if len(means) == 1:
        return f'Forest plot of a difference of {means[0]:+.1f} points'
    return (f'Forest plot of {len(means)} differences from {min(means):+.1f} '
            f'to {max(means):+.1f} points')
