# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Report a study: evidence.md, a figure per question, numbers of other pages.

Any page may name a number of the project's own rows, which this fills in:
``<!--=ARM/STAGE/METRIC-->46.8<!--/-->``, a difference, ``ARM:OTHER``, or its
verdict, ``METRIC?``.
"""
import math
import os
import re
import runpy
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import matplotlib

from projects.study import (
    Column,
    Headline,
    Pair,
    Question,
    Study,
)
from projects.study.comparison import Comparison, compare
from projects.study.results import (
    Row,
    Run,
    read_rows,
    values,
)
from projects.study.run import (
    DOCS,
    OWN,
    ROOT,
    load_study,
    study_parser,
)
from projects.study.speed import Ratio, draw_speed, read_speed, speed_table
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError
from qbheat_mm.report import markdown_table
from qbheat_mm.report.style import BLUE, GREY, in_style, new_figure

Rows = Mapping[Run, Row]
NUMBER = re.compile(
    '(?P<start><!--=(?P<arms>.+?)/(?P<stage>.+?)/(?P<metric>.+?)-->)'
    '[^<]*(?P<end><!--/-->)')

#: At least 11 pixels at the figures' natural width of 768.
FONTS = dict.fromkeys(('font.size', 'axes.titlesize', 'axes.labelsize',
                       'xtick.labelsize', 'ytick.labelsize'), 9)
WIDTH = 8.
HEAD = """{mark} {title}

{about}

Computed from {rows} runs, the rows of [{file}]({file}). Differences are
means over pairs that share a seed, with 95 % t intervals.
"""
#: Widest table, in columns; wider ones are split by judge, and folded.
WIDEST = 4
WIDE = """<details><summary>Show the tables</summary>

{tables}

</details>"""
#: Tables of questions without pairs, such as tuning.
FOLDED = """{mark} Preliminary runs

<details><summary>Show the tables</summary>

{tables}
</details>
"""


def pair_titles(study: Study, pair: Pair) -> tuple[str, str]:
    """Titles of both sides of a comparison, the first after its images."""
    (arm, stage), (other, other_stage) = pair.first, pair.second
    title = study.arms[arm].title
    if stage == other_stage:
        images = f'{pair.images}: ' if pair.images else ''
        return f'{images}{title}', study.arms[other].title
    return stage, f'{other_stage} on {title}'


def compare_pair(rows: Rows, pair: Pair, metric: str) -> Comparison | None:
    """Compare a pair on the seeds that have rows."""
    return compare(values(rows, *pair.first, metric),
                   values(rows, *pair.second, metric))


def with_interval(comparison: Comparison) -> str:
    """Format a difference, as '+3.0 [+1.4, +4.6]'."""
    text = f'{comparison.mean:+.1f}'
    if not math.isnan(comparison.low):
        text += f' [{comparison.low:+.1f}, {comparison.high:+.1f}]'
    return text


def describe(comparison: Comparison | None, seeds: int, primary: int) -> str:
    """Format a comparison, as 'yes, +3.0 [+1.4, +4.6]'."""
    if not comparison:
        return 'not run yet'
    count, text = len(comparison.differences), with_interval(comparison)
    if count < seeds:
        text += f' ({count} of {seeds} seeds)'
    elif count >= primary:
        text = f'**{comparison.verdict}**, {text}'
    return text


def differences(study: Study, rows: Rows, question: Question) -> str:
    """A line for each pair."""
    lines = []
    for pair in question.pairs:
        first, second = pair_titles(study, pair)
        difference = describe(compare_pair(rows, pair, question.metric),
                              len(question.seeds), study.primary)
        lines.append(f'- {first} against {second}: {difference}')
    return '\n'.join(lines)


def cell(measured: Sequence[float], seeds: int) -> str:
    """Format mean and standard deviation; without it, there is one seed."""
    if not measured:
        return '-'
    text = f'{mean(measured):.1f}'
    if len(measured) > 1:
        text += f' ± {stdev(measured):.1f}'
        if len(measured) < seeds:
            text += f' ({len(measured)} of {seeds} seeds)'
    return text


def table(study: Study, rows: Rows, arms: Sequence[str],
          columns: Sequence[Column], seeds: Collection[int]) -> str:
    """Means of arms with rows over seeds; columns as in :class:`Question`."""
    lines = [['frozen encoder', *map(heading, columns)]]
    for arm in arms:
        cells = []
        for column in columns:
            by_seed = measures(rows, arm, column)
            cells.append(cell([by_seed[seed] for seed in by_seed
                               if seed in seeds], len(seeds)))
        if any(text != '-' for text in cells):
            lines.append([title(study, arm, columns), *cells])
    return markdown_table(lines)


def tables(study: Study, rows: Rows, question: Question) -> str:
    """The table of a question, or several if it is wide."""
    if len(question.columns) <= WIDEST:
        return table(study, rows, question.table, question.columns,
                     question.seeds)
    by_judge = defaultdict(list)
    for column in question.columns:
        judge = column.metric.partition(',')[0]
        by_judge[column.stage, judge].append(column)
    parts = [table(study, rows, question.table, columns, question.seeds)
             for columns in by_judge.values()]
    return WIDE.format(tables='\n\n'.join(parts))


def heading(column: Column) -> str:
    """Head of a column: the prefix or else the stage, and the metric."""
    return f'{column.prefix.rstrip("-") or column.stage}, {column.metric}'


def measures(rows: Rows, arm: str, column: Column) -> dict[int, float]:
    """The values of an arm by seed."""
    return values(rows, column.prefix + arm, column.stage, column.metric)


def title(study: Study, arm: str, columns: Sequence[Column]) -> str:
    """The title of an arm, whose full name may start with a prefix."""
    for column in columns:
        if column.prefix + arm in study.arms:
            return study.arms[column.prefix + arm].title
    raise KeyError(arm)


def has_rows(rows: Rows, question: Question) -> bool:
    """Whether there is a comparison or, without pairs, a row."""
    if question.pairs:
        return any(compare_pair(rows, pair, question.metric)
                   for pair in question.pairs)
    return any((run.arm, run.stage) in question.cells for run in rows)


def answer(study: Study, rows: Rows, question: Question, link: str) -> str:
    """Answer a question as far as there are rows."""
    parts = []
    if question.pairs:
        parts += [f'Difference in {question.metric}:',
                  differences(study, rows, question),
                  f'![Paired differences](evidence/{question.name}.svg)']
    if question.table:
        parts.append(tables(study, rows, question))
    seeds = len(question.seeds)
    parts.append(f'{question.note} Seeds: {seeds}'
                 f'{", or one without ±" if seeds > 1 else ""}; '
                 f'[rows]({link}).'.strip())
    return '\n\n'.join(part.rstrip() for part in parts) + '\n'


@contextmanager
def chart(file: Path, height: float, panels: int = 1) -> Iterator:
    """Provide axes, and save their chart; equal charts are equal files."""
    figure = new_figure(WIDTH, height)
    yield figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata=dict(Date=None))


def draw(study: Study, rows: Rows, question: Question, file: Path) -> None:
    """Draw differences: seeds as points, means with their intervals."""
    with chart(file, 0.4 * len(question.pairs) + 0.7) as [axis]:
        axis.axvline(0, color=GREY, linewidth=0.8, linestyle='-')
        for row, pair in enumerate(question.pairs):
            comparison = compare_pair(rows, pair, question.metric)
            if not comparison:
                continue
            by_seed, low, high = (comparison.differences, comparison.low,
                                  comparison.high)
            axis.plot(by_seed, [row] * len(by_seed), 'o', color=GREY,
                      markersize=4, alpha=0.7)
            if not math.isnan(low):
                axis.plot([low, high], [row, row], '-', color=BLUE)
            axis.plot(comparison.mean, row, 'D', color=BLUE, markersize=6)
        axis.set_yticks(range(len(question.pairs)),
                        [' against '.join(pair_titles(study, pair))
                         for pair in question.pairs])
        axis.set_ylim(len(question.pairs) - 0.5, -0.5)
        axis.set_xlabel(f'difference in {question.metric}, points')


def fill(text: str, name: str, block: str) -> str:
    """Replace the text between ``<!-- name -->`` markers, if there are any."""
    start, end = f'<!-- {name} -->', f'<!-- /{name} -->'
    return re.sub(f'({start}).*({end})', lambda match: (
        f'{match[1]}\n{block}\n{match[2]}'), text, flags=re.DOTALL)


def page(study: Study, rows: Rows, link: str, mark: str = '#') -> str:
    """The report; ``mark`` starts its title."""
    below = f'{mark}#'
    parts = [HEAD.format(mark=mark, title=study.title, rows=len(rows),
                         file=link, about=study.about)]
    tables, missing = [], []
    for question in study.questions:
        if not has_rows(rows, question):
            missing.append(question.title)
            continue
        text = answer(study, rows, question, link)
        if question.pairs:
            parts.append(f'{below} {question.title}\n\n{text}')
        else:
            tables.append(f'**{question.title}**\n\n{text}')
    if tables:
        parts.append(FOLDED.format(mark=below, tables='\n'.join(tables)))
    if missing:
        parts.append(f'{below} Not computed yet\n\n' + ''.join(
            f'- {line}\n' for line in missing))
    if study.limits:
        parts.append(f'{below} Limits\n\n{study.limits}\n')
    return '\n'.join(parts)


def draw_all(study: Study, rows: Rows, folder: Path) -> None:
    """Draw a figure for each question."""
    for question in study.questions:
        if question.pairs and has_rows(rows, question):
            draw(study, rows, question, folder / f'{question.name}.svg')


class Reported(NamedTuple):
    """A study of the project, its rows and their file."""
    study: Study
    rows: Rows
    results: Path


def differences_table(rows: Rows, headline: Headline) -> str:
    """Differences by images; those without rows are left out."""
    lines = [['images'], *([heading(column)] for column in headline.judged)]
    for title, (first, second) in headline.differences.items():
        cells = []
        for column in headline.judged:
            arms = f'{column.prefix}{first}:{column.prefix}{second}'
            cells.append(number(rows, arms, column.stage, column.metric))
        if set(cells) != {'-'}:
            for line, cell in zip(lines, [title, *cells]):
                line.append(cell)
    return markdown_table(lines)


def overview(studies: Sequence[Reported]) -> str:
    """A table of answers by images; drawn ones have no row of their own."""
    found, images, titles = {}, {}, set()
    for study, rows, _ in studies:
        for question in study.questions:
            title, of = re.fullmatch(
                r'(.*?)(?: \(one seed\))?(?:, on (\w+))?\?',
                question.title).groups()
            for pair in question.pairs:
                comparison = compare_pair(rows, pair, question.metric)
                name = of or pair.images or 'drawn'
                if not comparison or name == 'drawn' and title not in titles:
                    continue
                images[name] = None
                first, second = pair_titles(study, pair._replace(images=''))
                asked = found.setdefault(f'**{title}?** {first} against', {})
                asked.setdefault(second, {})[name] = short_answer(
                    comparison, study.primary)
                titles.add(title)
    lines = [['', *images]]
    for asked, comparisons in found.items():
        start = f'{asked} '
        if len(comparisons) > 1:
            start = ''
            lines.append([asked, *([''] * len(images))])
        for second, cells in comparisons.items():
            lines.append([start + second, *(
                cells.get(name, '') for name in images)])
    return markdown_table(lines)


def short_answer(comparison: Comparison, primary: int) -> str:
    """The answer, or the difference of too few seeds."""
    if len(comparison.differences) < primary:
        return f'{comparison.mean:+.1f}'
    return comparison.verdict


def number(rows: Rows, arms: str, stage: str, metric: str) -> str:
    """A mean, a difference with its interval, or its verdict ('METRIC?').

    Without rows, it is '-'.
    """
    arm, _, other = arms.partition(':')
    name = metric.removesuffix('?')
    measured = values(rows, arm, stage, name)
    if other:
        comparison = compare(measured, values(rows, other, stage, name))
        if comparison and metric != name:
            return comparison.verdict or '-'
        return with_interval(comparison) if comparison else '-'
    return f'{mean(measured.values()):.1f}' if measured else '-'


def fill_numbers(text: str, rows: Rows) -> str:
    """Fill in the numbers that a page names."""
    return NUMBER.sub(lambda match: match['start'] + number(
        rows, match['arms'], match['stage'], match['metric']) + match['end'],
        text)


def read_own() -> list[Reported]:
    """Read the studies of the project."""
    found = []
    for file, results in OWN.items():
        study = runpy.run_path(str(file))['STUDY']
        found.append(Reported(study, read_rows(results), results))
    return found


def draw_ratios(ratios: Sequence[Ratio], file: Path) -> None:
    """Draw the figure of docs/performance.md."""
    with chart(file, 0.3 * len(ratios) + 0.7) as [axis]:
        draw_speed(ratios, axis)


def fill_docs(studies: Sequence[Reported]) -> None:
    """Write the project's studies into its pages, and draw their figures."""
    blocks, everything = {'overview': overview(studies)}, {}
    for study, rows, results in studies:
        everything |= rows
        blocks[results.stem] = page(
            study, rows, os.path.relpath(results, DOCS), '##')
        if study.headline:
            stages = {column.stage for column in study.headline.columns}
            seeds = {run.seed for run in rows if run.stage in stages}
            blocks['headline'] = table(study, rows, study.headline.table,
                                       study.headline.columns, seeds)
            blocks['differences'] = differences_table(rows, study.headline)
        draw_all(study, rows, DOCS / 'evidence')
    ratios = read_speed(DOCS / 'evidence/speed.csv')
    blocks['speed'] = speed_table(ratios)
    draw_ratios(ratios, DOCS / 'evidence/speed.svg')
    for file in [ROOT / 'README.md', *sorted(DOCS.rglob('*.md'))]:
        text = file.read_text('utf-8')
        for name, block in blocks.items():
            text = fill(text, name, block)
        file.write_text(fill_numbers(text, everything), 'utf-8')


def main() -> None:
    """Write the page."""
    study, results = load_study(study_parser(__doc__).parse_args())
    rows, out = read_rows(results), results.parent
    if not rows:
        raise UserError(f"'{results}' has no rows: run "
                        'projects/study/run.py first')
    with in_style(), matplotlib.rc_context(
            {'svg.fonttype': 'none', 'svg.hashsalt': 'study', **FONTS}):
        if results in OWN.values():
            out = DOCS
            fill_docs(read_own())
        else:
            (out / 'evidence.md').write_text(
                page(study, rows, results.name), 'utf-8')
            draw_all(study, rows, out / 'evidence')
    print(f'{len(rows)} rows, {len(study.questions)} questions: '
          f'{out / "evidence.md"}')


if __name__ == '__main__':
    report_user_errors(main)
