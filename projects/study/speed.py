# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Ratios to well-known networks and tools, as docs/performance.md shows them.

Rows of docs/evidence/speed.csv are what the benchmarks printed: ratios of
images per second or of time, one for each run. Here, all are speed.
"""
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import ScalarFormatter

from qbheat_mm.report import markdown_table
from qbheat_mm.report.style import BLUE, GREY, VERMILION

MACHINES = {'Intel': BLUE, 'AMD': VERMILION}


class Ratio(NamedTuple):
    """Speed relative to a peer.

    Attributes:
        row: The row of the file.
        speeds: Smallest and largest by column: machines, and the limit.
    """
    row: dict[str, str]
    speeds: dict[str, tuple[float, float]]


def read_speed(file: Path) -> list[Ratio]:
    """Read the rows, and turn times into speeds."""
    ratios = []
    with open(file, newline='', encoding='utf-8') as lines:
        for row in csv.DictReader(lines):
            speeds = {}
            for name in (*MACHINES, 'limit'):
                values = [float(word) for word in row[name].split()]
                if row['measure'] == 'time':
                    values = [1 / value for value in values]
                if values:
                    speeds[name] = min(values), max(values)
            ratios.append(Ratio(row, speeds))
    return ratios


def speed_table(ratios: Sequence[Ratio]) -> str:
    """All ratios, with the commands that print them."""
    lines = [['what', 'peer', *MACHINES, 'limit', 'command']]
    for row, speeds in ratios:
        cells = []
        for name in (*MACHINES, 'limit'):
            numbers = [f'{round(speed, 2):g}'
                       for speed in speeds.get(name, ())]
            cells.append(' to '.join(dict.fromkeys(numbers)))
        command = f'`{row["command"]}`' if row['command'] else ''
        what = ', '.join(filter(None, (row['what'], row['note'])))
        lines.append([what, row['peer'], *cells, command])
    return markdown_table(lines)


def draw_speed(ratios: Sequence[Ratio], axis: Axes) -> None:
    """Draw ranges of runs as bars around points, and limits as ticks."""
    axis.axvline(1, color=GREY, linewidth=0.8, linestyle='-')
    for place, (_, speeds) in enumerate(ratios):
        for offset, (name, color) in zip((-0.15, 0.15), MACHINES.items()):
            if name in speeds:
                height = place + offset
                axis.plot(speeds[name], [height, height], '-o', color=color,
                          markersize=4, label=name if place == 0 else None)
        if 'limit' in speeds:
            axis.plot(speeds['limit'], [place, place], '|', color=GREY,
                      markersize=12, label='limit' if place == 0 else None)
    axis.set_yticks(range(len(ratios)), [
        f'{row["what"].replace("`", "")} : {row["peer"].partition(" (")[0]}'
        for row, _ in ratios])
    axis.set_ylim(len(ratios) - 0.5, -0.5)
    axis.set_xscale('log', base=2)
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.set_xlabel('speed, with 1 as the peer')
    axis.legend(loc='lower right')
