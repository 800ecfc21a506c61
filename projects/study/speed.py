# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Ratios to well-known networks and tools, as docs/performance.md shows them.

Rows of docs/evidence/speed.csv are what the benchmarks printed: ratios of
images per second or of time, one for each run. Here, all are speed.
"""
import csv
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import ScalarFormatter

from projects.study.forest import CHARACTERS, LINE, WIDTH, chart
from qbheat_mm.report import markdown_table
from qbheat_mm.report.style import BLUE, GREY, VERMILION

#: Markers of the columns: machines, and the limit.
COLUMNS = dict(
    Intel=dict(marker='o', markersize=4, color=BLUE, linestyle='-'),
    AMD=dict(marker='o', markersize=4, color=VERMILION, linestyle='-'),
    limit=dict(marker='|', markersize=12, color=GREY, linestyle=''))


class Ratio(NamedTuple):
    """Speed relative to a peer.

    Attributes:
        row: The row of the file.
        speeds: Smallest and largest by column.
    """
    row: dict[str, str]
    speeds: dict[str, tuple[float, float]]


def read_speed(file: Path) -> list[Ratio]:
    """Read the rows, and turn times into speeds."""
    ratios = []
    with open(file, newline='', encoding='utf-8') as lines:
        for row in csv.DictReader(lines):
            speeds = {}
            for name in COLUMNS:
                values = [float(word) for word in row[name].split()]
                if row['measure'] == 'time':
                    values = [1 / value for value in values]
                if values:
                    speeds[name] = min(values), max(values)
            ratios.append(Ratio(row, speeds))
    return ratios


def speed_table(ratios: Sequence[Ratio]) -> str:
    """All ratios, with the commands that print them."""
    lines = [['what', 'peer', *COLUMNS, 'command']]
    for row, speeds in ratios:
        cells = []
        for name in COLUMNS:
            numbers = [f'{round(speed, 2):g}'
                       for speed in speeds.get(name, ())]
            cells.append(' to '.join(dict.fromkeys(numbers)))
        command = f'`{row["command"]}`' if row['command'] else ''
        what = ', '.join(filter(None, (row['what'], row['note'])))
        lines.append([what, row['peer'], *cells, command])
    return markdown_table(lines)


def draw_speed(ratios: Sequence[Ratio], file: Path) -> None:
    """Draw ranges of runs as bars around points, and limits as ticks.

    Each stands below the names of the two that are compared, so that the
    figure is no wider than a phone's screen.

    Args:
        ratios (Sequence[Ratio]): Rows.
        file (Path): The SVG file.
    """
    titles = []
    for row, _ in ratios:
        peer = row['peer'].partition(' (')[0]
        text = f'{row["what"]} : {peer}'.replace('`', '')
        titles.append(textwrap.wrap(text, CHARACTERS))
    lines = sum(len(title) + 1.4 for title in titles)
    with chart(file, WIDTH, LINE * lines + 0.9) as axis:
        top = 0.
        for title, (_, speeds) in zip(titles, ratios):
            axis.text(0, top, '\n'.join(title), va='top',
                      transform=axis.get_yaxis_transform())
            top += len(title) + 1.4
            draw_ratio(axis, top - 0.9, speeds)
        axis.set_ylim(lines, -0.2)
        axis.set_yticks([])
        axis.spines['left'].set_visible(False)
        axis.set_xscale('log', base=2)
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.set_xlabel('speed, with 1 as the peer')
        axis.figure.legend(handles=legend(), ncols=len(COLUMNS),
                           loc='outside lower center')


def draw_ratio(axis: Axes, height: float,
               speeds: Mapping[str, tuple[float, float]]) -> None:
    """Draw the speeds of each column, machines above each other."""
    axis.plot([1, 1], [height - 0.5, height + 0.5], color=GREY,
              linewidth=0.8, linestyle='-')
    for offset, (name, marker) in zip((-0.2, 0.2, 0), COLUMNS.items()):
        if name in speeds:
            axis.plot(speeds[name], [height + offset] * 2, **marker)


def legend() -> list[Line2D]:
    """The columns and their markers."""
    return [Line2D([], [], label=name, **marker)
            for name, marker in COLUMNS.items()]
