# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write what a study has found: evidence.md and a figure per question.

Of the study of this project, also the README's chart and table.
"""
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

import matplotlib

from projects.drawn_world.results import (
    Row,
    Run,
    markdown_table,
    read_rows,
    values,
)
from projects.drawn_world.study import (
    Cell,
    Headline,
    Pair,
    Question,
    Study,
)
from projects.drawn_world.study.comparison import Comparison, compare
from projects.drawn_world.study.run import ROWS, load_study, study_parser
from qbheat_mm.analysis.style import BLUE, GREY, grid, in_style, new_figure
from qbheat_mm.cli import report_user_errors
from qbheat_mm.errors import UserError

Rows = Mapping[Run, Row]

NO_ROWS = 'Not computed yet.'
#: The fewest seeds of a verdict.
PRIMARY = 6
#: The README's text between these is generated.
MARKERS = '<!-- results -->', '<!-- /results -->'
#: At least 11 pixels where figures have their natural width of 768.
FONTS = {f'{part}size': 9 for part in (
    'font.', 'axes.title', 'xtick.label', 'ytick.label', 'axes.label')}
WIDTH = 8.
HEAD = """# Evidence

{about}

Computed from {rows} runs, the rows of [{file}]({file}), by
`python projects/drawn_world/study/report.py`. Differences are means over
pairs that share a seed, with 95 % t intervals.
"""
#: Tables of questions that compare nothing, such as tuning.
FOLDED = """## Preliminary runs

<details><summary>Show the tables</summary>

{}
</details>
"""


def pair_titles(study: Study, pair: Pair) -> tuple[str, str]:
    """Name what differs, and what both share if it is not obvious."""
    (arm, stage), (other, other_stage) = pair.first, pair.second
    title = study.arms[arm].title
    if stage == other_stage:
        return title, study.arms[other].title
    return stage, f'{other_stage} on {title}'


def compare_pair(rows: Rows, pair: Pair, metric: str) -> Comparison | None:
    """Compare what has been run of a pair."""
    return compare(values(rows, *pair.first, metric),
                   values(rows, *pair.second, metric))


def describe(found: Comparison | None, seeds: int) -> str:
    """A comparison in words, as 'yes, +3.0 [+1.4, +4.6]'."""
    if not found:
        return 'not run yet'
    count, text = len(found.differences), f'{found.mean:+.1f}'
    if not math.isnan(found.low):
        text += f' [{found.low:+.1f}, {found.high:+.1f}]'
    if count < seeds:
        text += f' ({count} of {seeds} seeds)'
    elif count >= PRIMARY:
        text = f'**{found.verdict}**, {text}'
    return text


def sentence(study: Study, rows: Rows, question: Question) -> str:
    """The answer in one sentence; '' without pairs."""
    parts, last = [], ''
    for pair in question.pairs:
        first, other = pair_titles(study, pair)
        found = compare_pair(rows, pair, question.metric)
        parts.append((first != last) * f'{first} ' + f'against {other}: '
                     + describe(found, len(question.seeds)))
        last = first
    return f'{question.metric}, {"; ".join(parts)}.' if parts else ''


def cell(found: Sequence[float], seeds: int) -> str:
    """Mean and standard deviation, and how many seeds if some are missing."""
    if not found:
        return '-'
    text = f'{mean(found):.1f}'
    if len(found) > 1:
        text += f' ± {stdev(found):.1f}'
    return text + (len(found) < seeds) * f' ({len(found)} of {seeds} seeds)'


def table(study: Study, rows: Rows, arms: Sequence[str],
          columns: Sequence[Cell], seeds: Sequence[int]) -> str:
    """Means of arms over seeds; columns are (stage, metric) pairs."""
    lines = [['frozen encoder', *(', '.join(column) for column in columns)]]
    for arm in arms:
        lines.append([study.arms[arm].title, *(
            cell([value for seed, value in values(rows, arm, *column).items()
                  if seed in seeds], len(seeds))
            for column in columns)])
    return markdown_table(lines)


def has_rows(rows: Rows, question: Question) -> bool:
    """Whether anything can be said: a comparison or, without pairs, a row."""
    if question.pairs:
        return any(compare_pair(rows, pair, question.metric)
                   for pair in question.pairs)
    return any((run.arm, run.stage) in question.cells for run in rows)


def answer(study: Study, rows: Rows, question: Question, link: str) -> str:
    """What is known of a question."""
    parts = [sentence(study, rows, question)]
    if question.pairs:
        parts.append(f'![Paired differences](evidence/{question.name}.svg)')
    if question.table:
        parts.append(table(study, rows, question.table, question.columns,
                           question.seeds))
    parts.append(f'{question.note} Seeds: {len(question.seeds)}; '
                 f'[rows]({link}).'.strip())
    return '\n\n'.join(filter(None, parts)) + '\n'


def draw(study: Study, rows: Rows, question: Question):
    """Draw differences: seeds as points, means with their intervals.

    Returns:
        matplotlib.figure.Figure: The figure.
    """
    figure = new_figure(WIDTH, 0.4 * len(question.pairs) + 0.7)
    axis = grid(figure, 1, 1)[0, 0]
    axis.axvline(0, color=GREY, linewidth=0.8, linestyle='-')
    for row, pair in enumerate(question.pairs):
        found = compare_pair(rows, pair, question.metric)
        if not found:
            continue
        axis.plot(found.differences, [row] * len(found.differences), 'o',
                  color=GREY, markersize=4, alpha=0.7)
        if not math.isnan(found.low):
            axis.plot([found.low, found.high], [row, row], '-', color=BLUE)
        axis.plot(found.mean, row, 'D', color=BLUE, markersize=6)
    axis.set_yticks(range(len(question.pairs)),
                    [' against '.join(pair_titles(study, pair))
                     for pair in question.pairs])
    axis.set_ylim(len(question.pairs) - 0.5, -0.5)
    axis.set_xlabel(f'difference in {question.metric}, points')
    return figure


def draw_headline(study: Study, rows: Rows, headline: Headline):
    """Draw the means of some arms as bars, and their seeds as points.

    Returns:
        matplotlib.figure.Figure: The figure.
    """
    figure = new_figure(WIDTH, 0.45 * len(headline.chart) + 0.7)
    axis = grid(figure, 1, 1)[0, 0]
    for row, arm in enumerate(headline.chart):
        found = list(values(rows, arm, *headline.columns[0]).values())
        if found:
            axis.barh(row, mean(found), 0.6, color=BLUE)
        axis.annotate(cell(found, PRIMARY) if found else 'not measured yet',
                      (max(found or [0]), row), (8, 0),
                      textcoords='offset points', va='center')
        axis.plot(found, [row] * len(found), 'o', color=GREY, markersize=3)
    axis.set_yticks(range(len(headline.chart)),
                    [study.arms[arm].title for arm in headline.chart])
    axis.invert_yaxis()
    axis.set_xlabel(', '.join(headline.columns[0]))
    return figure


def save(figure, file: Path) -> None:
    """Write an SVG file; equal figures give equal files."""
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata=dict(Date=None))


def readme_table(study: Study, rows: Rows, headline: Headline) -> str:
    """The README's table."""
    arms = [arm for arm in headline.table if any(
        values(rows, arm, *column) for column in headline.columns)]
    columns = [column for column in headline.columns if any(
        values(rows, arm, *column) for arm in arms)]
    return (table(study, rows, arms, columns, range(PRIMARY)) if arms
            else NO_ROWS)


def fill_readme(text: str, block: str) -> str:
    """Replace what is between the markers; without them, nothing."""
    before, start, rest = text.partition(MARKERS[0])
    _, end, after = rest.partition(MARKERS[1])
    return (f'{before}{start}\n{block}\n{end}{after}' if start and end
            else text)


def page(study: Study, rows: Rows, link: str) -> str:
    """The text of evidence.md."""
    parts = [HEAD.format(rows=len(rows), file=link, about=study.about)]
    tables, open_ones = [], []
    for question in study.questions:
        if not has_rows(rows, question):
            open_ones.append(f'- {question.title}\n')
        elif question.pairs:
            parts.append(f'## {question.title}\n\n'
                         + answer(study, rows, question, link))
        else:
            tables.append(f'**{question.title}**\n\n'
                          + answer(study, rows, question, link))
    if tables:
        parts.append(FOLDED.format('\n'.join(tables)))
    if open_ones:
        parts.append('## Not computed yet\n\n' + ''.join(open_ones))
    if study.limits:
        parts.append(f'## What this cannot show\n\n{study.limits}\n')
    return '\n'.join(parts)


def write(study: Study, rows: Rows, results: Path, out: Path) -> None:
    """Write the page and its figures."""
    out.mkdir(parents=True, exist_ok=True)
    (out / 'evidence.md').write_text(
        page(study, rows, os.path.relpath(results, out)), encoding='utf-8')
    for question in study.questions:
        if question.pairs and has_rows(rows, question):
            save(draw(study, rows, question),
                 out / 'evidence' / f'{question.name}.svg')


def write_readme(study: Study, rows: Rows, docs: Path) -> None:
    """Write the README's chart, and its text between the markers."""
    readme = docs.parent / 'README.md'
    readme.write_text(fill_readme(
        readme.read_text('utf-8'),
        readme_table(study, rows, study.headline)), 'utf-8')
    save(draw_headline(study, rows, study.headline),
         docs / 'figures/results.svg')


def main() -> None:
    """Write the page."""
    parser = study_parser(__doc__)
    parser.add_argument('--out', type=Path, metavar='FOLDER',
                        help='for evidence.md and evidence/; defaults to '
                        'docs, or the folder of the rows of another study')
    args = parser.parse_args()
    study = load_study(args)
    own = args.results == ROWS
    rows = read_rows(args.results)
    if not rows and not own:
        raise UserError(f"'{args.results}' has no rows: run "
                        'projects/drawn_world/study/run.py first')
    out = args.out or (ROWS.parents[1] if own else args.results.parent)
    with in_style(), matplotlib.rc_context(
            {'svg.fonttype': 'none', 'svg.hashsalt': 'study', **FONTS}):
        write(study, rows, args.results, out)
        if own and not args.out and study.headline:
            write_readme(study, rows, out)
    print(f'{len(rows)} rows, {len(study.questions)} questions: '
          f'{out / "evidence.md"}')


if __name__ == '__main__':
    report_user_errors(main)
