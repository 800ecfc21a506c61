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
#: Inches: 400 pixels.
WIDTH = 400 / 96
LINE = 0.19
#: Characters that fit.
CHARACTERS = 58
#: Of the primary metric, and of the second.
MARKERS = 'D', 'o'


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


def draw_forest(answers: Sequence[Answer], metrics: Sequence[str],
                colors: Mapping[str, str], file: Path) -> None:
    """Draw a line for each pair and metric, below the names of the arms.

    Args:
        answers (Sequence[Answer]): The pairs.
        metrics (Sequence[str]): Names of all metrics.
        colors (Mapping[str, str]): By set of images.
        file (Path): The SVG file.
    """
    shown = [answer for answer in answers if answer.differences]
    titles = [textwrap.wrap(answer.title, CHARACTERS) for answer in shown]
    lines = sum(map(len, titles)) + len(shown) * (len(metrics) + 0.4)
    with chart(file, WIDTH, LINE * (lines + 0.5) + 0.65) as axis:
        height = 0.
        for answer, words in zip(shown, titles):
            axis.text(0, height, '\n'.join(words), va='top',
                      transform=axis.get_yaxis_transform())
            height += len(words) + 0.5
            top = height - 0.5
            for metric, marker in zip(metrics, MARKERS):
                if metric in answer.differences:
                    draw_difference(axis, height, answer.differences[metric],
                                    colors[answer.images], marker)
                height += 1
            axis.plot([0, 0], [top, height - 0.5], color=GREY, linewidth=0.8,
                      linestyle='-')
            height -= 0.1
        axis.set_ylim(height - 0.2, -0.2)
        axis.set_yticks([])
        axis.spines['left'].set_visible(False)
        axis.set_xlabel('difference in points')
        if len(metrics) > 1:
            axis.figure.legend(handles=legend(metrics), ncols=len(metrics),
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
    axis.plot(comparison.mean, height, marker, color=color, markersize=6,
              fillstyle='full' if marker == MARKERS[0] else 'none')


def legend(metrics: Sequence[str]) -> list[Line2D]:
    """Markers of the metrics."""
    handles = []
    for metric, marker in zip(metrics, MARKERS):
        handles.append(Line2D(
            [], [], color=GREY, marker=marker, linestyle='', label=metric,
            fillstyle='full' if marker == MARKERS[0] else 'none'))
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
