# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Numbers of the demo, from the logs that its runs wrote."""
import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from qbheat_mm.analysis.report import Table
from qbheat_mm.errors import UserError

#: Title, run and metric of each row; how many of the metric's units are one.
ROWS = (
    ('lin, top-1 (%)', 'linear', 'accuracy/top1', 1),
    ('tran-1, top-1 (%)', 'tran1', 'accuracy/top1', 1),
    ('RetinaNet, AP', 'retinanet', 'coco/bbox_mAP', 100),
    ('RetinaNet, AP50', 'retinanet', 'coco/bbox_mAP_50', 100),
)


def read_log(work_dir: Path) -> list[dict]:
    """What the newest run in a work folder logged, one dict a line.

    Raises:
        UserError: No run has logged anything there.
    """
    logs = sorted(work_dir.glob('*/vis_data/scalars.json'))
    if not logs:
        raise UserError(f"'{work_dir}' holds no log (TIME/vis_data/"
                        'scalars.json): has its run ended?')
    lines = logs[-1].read_text(encoding='utf-8').splitlines()
    return [json.loads(line) for line in lines]


def read_metric(work_dir: Path, metric: str) -> float:
    """The last value of a metric.

    Of a detector that found nothing at all mmdet logs no AP: it is 0.

    Raises:
        UserError: The run was not evaluated.
    """
    log = read_log(work_dir)
    values = [line[metric] for line in log if metric in line]
    evaluated = any('loss' not in line for line in log)
    if not values and evaluated and metric.startswith('coco/'):
        return 0.
    if not values:
        raise UserError(f"the log of '{work_dir}' holds no '{metric}': was "
                        'the run evaluated?')
    return values[-1]


def collect(out: Path, encoders: Sequence[str]) -> list[dict]:
    """The rows of the table, from ``OUT/ENCODER/RUN``.

    Args:
        out (Path): Of the demo.
        encoders (Sequence[str]): Folders there; ``'random'`` and
            ``'pretrained'`` among them.

    Returns:
        list[dict]: ``title``, a value for each encoder, and ``gain`` of
        ``'pretrained'`` over ``'random'``.
    """
    rows = []
    for title, run, metric, factor in ROWS:
        row = dict(title=title)
        for encoder in encoders:
            value = read_metric(out / encoder / run, metric) * factor
            row[encoder] = round(value, 1)
        row['gain'] = round(row['pretrained'] - row['random'], 1)
        rows.append(row)
    return rows


def to_table(rows: Sequence[Mapping]) -> Table:
    """The rows as a table of a report."""
    values = [name for name in rows[0] if name not in ('title', 'gain')]
    return Table('Frozen encoders', ['frozen encoder', *values, 'gain'], [[
        row['title'], *(f'{row[name]:.1f}' for name in values),
        f'{row["gain"]:+.1f}'
    ] for row in rows])


def compare_seeds(results: Sequence[Mapping]) -> Table:
    """The values of several runs in one table.

    Args:
        results (Sequence[Mapping]): Contents of ``results.json``, one a run,
            all with the same encoders.

    Returns:
        Table: In each cell the values of the runs in their order; the gain
        is that of the means.

    Raises:
        UserError: If a run has others.
    """
    for result in results[1:]:
        for row, first in zip_longest(result['rows'], results[0]['rows'],
                                      fillvalue={}):
            if row.keys() != first.keys():
                raise UserError(
                    f"seeds {results[0]['seed']} and {result['seed']} have "
                    f'other columns, {_names(first)} and {_names(row)}: give '
                    'runs of the same encoders, --calibrated for all or none')
    values = [n for n in results[0]['rows'][0] if n not in ('title', 'gain')]
    seeds = ', '.join(str(result['seed']) for result in results)
    table = Table(f'Seeds {seeds}', ['frozen encoder', *values, 'mean gain'])
    for same in zip(*(result['rows'] for result in results)):
        cells = [' / '.join(f'{row[n]:.1f}' for row in same) for n in values]
        gain = sum(row['gain'] for row in same) / len(same)
        table.rows.append([same[0]['title'], *cells, f'{gain:+.1f}'])
    return table


def _names(row: Mapping) -> str:
    return ' '.join(name for name in row if name not in ('title', 'gain'))


def to_markdown(table: Table) -> str:
    """A table in Markdown, aligned for a terminal too."""
    lines = [table.columns, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    text = [
        '| ' + ' | '.join([line[0].ljust(widths[0])] + [
            cell.rjust(width) for cell, width in zip(line[1:], widths[1:])
        ]) + ' |' for line in lines
    ]
    rule = '|'.join(['-' * (widths[0] + 2)] +
                    ['-' * (width + 1) + ':' for width in widths[1:]])
    return '\n'.join([text[0], f'|{rule}|', *text[1:]])
