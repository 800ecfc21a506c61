# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write what a study has found: evidence.md and a figure per question."""
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import stdev

import matplotlib

from projects.drawn_world.results import (
    Row,
    Run,
    markdown_table,
    read_rows,
    values,
)
from projects.drawn_world.study import ENCODER, Question, Study
from projects.drawn_world.study.comparison import Comparison, compare, correct
from projects.drawn_world.study.run import ROWS, load_study, study_parser
from qbheat_mm.analysis.style import BLUE, GREY, grid, in_style, new_figure
from qbheat_mm.cli import report_user_errors
from qbheat_mm.errors import UserError

Rows = Mapping[Run, Row]
Lines = list[list[str]]

#: Metrics in percent; all others are shares and ratios.
PERCENT = {'top-1', 'k-NN', 'AP', 'AP50'}
MISSING = '-'
HEAD = """# Evidence

What the study has measured: {rows} runs on {machines}, from the rows of
[{file}]({file}). `python projects/drawn_world/study/run.py` adds rows,
`python projects/drawn_world/study/report.py` writes this page.

{about}

Tables give means and standard deviations over seeds, and mean differences,
paired by seed, with 95 % BCa bootstrap intervals (too narrow for so few
seeds). p-values, from exact sign-flip tests, are corrected over all
comparisons of a question; fewer than six seeds get none.
"""


def mean(found: Sequence[float]) -> float:
    """Mean, rounded as floats are, which statistics.mean is not."""
    return sum(found) / len(found)


def number(value: float, metric: str, sign: str = '') -> str:
    """Format a value: percent with one decimal, others with two."""
    return f'{value:{sign}.{1 if metric in PERCENT else 2}f}'


def compare_all(rows: Rows, question: Question) -> dict[tuple, str]:
    """All comparisons of a question as text, by arm and (stage, metric)."""
    found = {(arm, column): compare(
        values(rows, arm, *column), values(rows, question.baseline, *column))
        for arm in question.arms for column in question.columns}
    p_values = correct([c.p if c else math.nan for c in found.values()])
    return {(arm, column): describe(comparison, p, column[1])
            for ((arm, column), comparison), p in zip(found.items(), p_values)}


def describe(comparison: Comparison | None, p: float, metric: str) -> str:
    """Format a comparison, as '+3.0 [+1.4, +5.3], p 0.104'."""
    if not comparison:
        return MISSING
    difference, low, high = (number(value, metric, '+')
                             for value in comparison[1:4])
    bounds = '' if math.isnan(comparison.low) else f' [{low}, {high}]'
    return difference + bounds + ('' if math.isnan(p) else f', p {p:.3f}')


def column_title(study: Study, stage: str, metric: str) -> str:
    """Title of a column; what no training measured names itself."""
    if stage == ENCODER:
        return f'the training itself, {metric}'
    trained = stage in study.probes and not study.probes[stage].measured
    return f'{stage}, {metric}' if trained else metric


def means(study: Study, rows: Rows, question: Question) -> Lines:
    """Mean and standard deviation over seeds of every metric.

    A mean over fewer seeds than others of its arm says over how many.
    """
    lines = [['encoder', 'seeds', *(column_title(study, *column)
                                    for column in question.columns)]]
    for name in (question.baseline, *question.arms):
        found = [list(values(rows, name, *column).values())
                 for column in question.columns]
        seeds = max(map(len, found))
        line = [study.arms[name].title, str(seeds)]
        for measured, (_, metric) in zip(found, question.columns):
            text = number(mean(measured), metric) if measured else MISSING
            if len(measured) > 1:
                text += f' ± {number(stdev(measured), metric)}'
            if 0 < len(measured) < seeds:
                text += f' ({len(measured)})'
            line.append(text)
        lines.append(line)
    return lines


def differences(study: Study, rows: Rows, question: Question) -> Lines:
    """Differences from the baseline, with intervals and p-values."""
    found = compare_all(rows, question)
    return [[f'against {study.arms[question.baseline].title}', *(
        column_title(study, *column) for column in question.columns)],
            *([study.arms[arm].title, *(
                found[arm, column] for column in question.columns)]
              for arm in question.arms)]


def section(study: Study, rows: Rows, question: Question) -> str:
    """The section of a question."""
    paper = f'*The paper:* {question.paper}\n\n' if question.paper else ''
    return f"""## {question.title}

{paper}{markdown_table(means(study, rows, question))}

{markdown_table(differences(study, rows, question))}

![{question.title}](evidence/{question.name}.svg)
"""


def draw(study: Study, rows: Rows, question: Question):
    """Draw seeds as points and their means as bars, a panel per metric.

    Returns:
        matplotlib.figure.Figure: The figure.
    """
    names = (question.baseline, *question.arms)
    columns = question.columns
    figure = new_figure(2. * len(columns) + 1.5, 0.4 * len(names) + 0.8)
    panels = grid(figure, 1, len(columns), sharey=True)[0]
    for panel, column in zip(panels, columns):
        for row, name in enumerate(names):
            found = list(values(rows, name, *column).values())
            color = GREY if name == question.baseline else BLUE
            panel.plot(found, [row] * len(found), 'o', color=color,
                       markersize=3, alpha=0.6)
            if found:
                panel.plot(mean(found), row, '|', color=color, markersize=14)
        panel.set_title(column_title(study, *column))
    panels[0].set_yticks(range(len(names)),
                         [study.arms[name].title for name in names])
    panels[0].invert_yaxis()
    return figure


def write(study: Study, rows: Rows, results: Path, out: Path) -> None:
    """Write the page and its figures."""
    (out / 'evidence').mkdir(parents=True, exist_ok=True)
    text = [HEAD.format(
        rows=len(rows), file=os.path.relpath(results, out),
        machines=', '.join(sorted({row.machine for row in rows.values()})),
        about=study.about)]
    for question in study.questions:
        text.append(section(study, rows, question))
        # Equal figures give equal files.
        with in_style(), matplotlib.rc_context(
                {'svg.fonttype': 'none', 'svg.hashsalt': question.name}):
            draw(study, rows, question).savefig(
                out / 'evidence' / f'{question.name}.svg',
                metadata=dict(Date=None))
    (out / 'evidence.md').write_text('\n'.join(text), encoding='utf-8')


def main() -> None:
    """Write the page."""
    parser = study_parser(__doc__)
    parser.add_argument('--out', type=Path, metavar='FOLDER',
                        help='for evidence.md and evidence/; defaults to '
                        'docs, or the folder of the rows of another study')
    args = parser.parse_args()
    study = load_study(args)
    rows = read_rows(args.results)
    if not rows:
        raise UserError(f"'{args.results}' has no rows: run "
                        'projects/drawn_world/study/run.py first')
    out = args.out or (ROWS.parents[1] if args.results == ROWS
                       else args.results.parent)
    write(study, rows, args.results, out)
    print(f'{len(rows)} rows, {len(study.questions)} questions: '
          f'{out / "evidence.md"}')


if __name__ == '__main__':
    report_user_errors(main)
