# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tables of means."""
from collections import defaultdict
from collections.abc import Collection, Sequence
from statistics import mean, stdev

from projects.study import Column, Question, Study
from projects.study.answers import Rows
from projects.study.results import values
from qbheat_mm.report import markdown_table

#: Widest table, in columns; wider ones are split by probe, and folded.
WIDEST = 4
WIDE = """<details><summary>Show the tables</summary>

{tables}

</details>"""


def cell(measured: Sequence[float], seeds: int) -> str:
    """Format mean and standard deviation.

    Without the latter, there is one seed, or nothing varies.
    """
    if not measured:
        return '-'
    text = f'{mean(measured):.1f}'
    if len(set(measured)) > 1:
        text += f' ± {stdev(measured):.1f}'
    if 1 < len(measured) < seeds:
        text += f' ({len(measured)} of {seeds} seeds)'
    return text


def table(study: Study, rows: Rows, arms: Sequence[str],
          columns: Sequence[Column], seeds: Collection[int]) -> str:
    """Means of arms with rows over seeds; columns as in :class:`Question`."""
    lines = [['frozen encoder', *map(heading, columns)]]
    for arm in arms:
        cells = []
        for column in columns:
            by_seed = values(rows, column.prefix + arm, column.stage,
                             column.metric)
            measured = [by_seed[seed] for seed in by_seed if seed in seeds]
            cells.append(cell(measured, len(seeds)))
        if set(cells) != {'-'}:
            lines.append([title(study, arm, columns), *cells])
    return markdown_table(lines)


def tables(study: Study, rows: Rows, question: Question) -> str:
    """The table of a question, or several if it is wide."""
    if len(question.columns) <= WIDEST:
        return table(study, rows, question.table, question.columns,
                     question.seeds)
    by_probe = defaultdict(list)
    for column in question.columns:
        probe = column.metric.partition(',')[0]
        by_probe[column.stage, probe].append(column)
    parts = []
    for columns in by_probe.values():
        text = table(study, rows, question.table, columns, question.seeds)
        if text.count('\n') > 1:  # not only the head
            parts.append(text)
    return WIDE.format(tables='\n\n'.join(parts))


def heading(column: Column) -> str:
    """Head of a column: the prefix or else the stage, and the metric."""
    return f'{column.prefix.rstrip("-") or column.stage}, {column.metric}'


def title(study: Study, arm: str, columns: Sequence[Column]) -> str:
    """The title of an arm, whose full name may start with a prefix."""
    for column in columns:
        if column.prefix + arm in study.arms:
            return study.arms[column.prefix + arm].title
    raise KeyError(arm)
