# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Report a study: a page with all tables, and a figure for each question.

Of the project's own studies, it also writes the overview of
docs/evidence.md, and the numbers and tables that any page names:
``<!--=ARM/STAGE/METRIC-->46.8<!--/-->``, a difference, ``ARM:OTHER``, or a
verdict, ``METRIC?`` or ``METRIC+OTHER?`` where both probes must agree.
"""
import os
import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from projects.study import Question, Study
from projects.study.answers import (
    Answer,
    Rows,
    answer,
    compare_pair,
    fill_numbers,
    summarize,
)
from projects.study.forest import (
    colors_of,
    describe,
    draw_forest,
    figure_style,
)
from projects.study.results import read_rows
from projects.study.run import (
    DOCS,
    OWN,
    ROOT,
    load_study,
    study_parser,
)
from projects.study.speed import draw_speed, read_speed, speed_table
from projects.study.tables import tables
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError

HEAD = """# {title}

{about}

Computed from {rows} runs, the rows of [{file}]({file}). Differences are
means over pairs that share a seed, with 95 % t intervals.
"""
#: Tables of questions without pairs, such as tuning.
FOLDED = """## More tables

<details><summary>Show the tables</summary>

{tables}
</details>
"""
#: Metrics of probes that are trained from a seed.
LEARNED = {'lin', 'tran-1'}


def has_rows(rows: Rows, question: Question) -> bool:
    """Whether there is a comparison or, without pairs, a row."""
    if not question.pairs:
        return any((run.arm, run.stage) in question.cells for run in rows)
    for pair in question.pairs:
        for metric in question.metrics:
            if compare_pair(rows, pair, metric):
                return True
    return False


def section(study: Study, rows: Rows, question: Question, figures: str) -> str:
    """Answer a question as far as there are rows."""
    parts = []
    if question.pairs:
        found = answer(study, rows, question)
        lines = [f'- {each.title}: {each}' for each in found]
        parts += [f'Difference in {" and ".join(question.metrics)}:',
                  '\n'.join(lines), figure(question, found, figures)]
    if question.table:
        parts.append(tables(study, rows, question))
    seeds = len(question.seeds)
    notes = [question.note, f'Seeds: {seeds}'
             f'{", or one without ±" if seeds > 1 else ""}']
    if has_probe_seed_0(rows, question):
        notes.append('(probe seed 0)')
    parts.append(' '.join(filter(None, notes)) + '.')
    return '\n\n'.join(part.rstrip() for part in parts) + '\n'


def figure(question: Question, answers: Sequence[Answer], folder: str) -> str:
    """The figure of a question, with a text for those who do not see it."""
    return f'![{describe(answers)}]({folder}{question.name}.svg)'


def has_probe_seed_0(rows: Rows, question: Question) -> bool:
    """Whether learned probes had another seed than their arm."""
    for run, row in rows.items():
        if (run.seed and row.probe_seed is None and LEARNED & set(row.metrics)
                and (run.arm, run.stage) in question.cells):
            return True
    return False


def page(study: Study, rows: Rows, link: str, figures: str = '') -> str:
    """The page of a study.

    Args:
        study (Study): The study.
        rows (Rows): Its rows.
        link (str): Their file, for a link.
        figures (str): Folder of figures, '' or with a slash.
    """
    parts = [HEAD.format(title=study.title, rows=len(rows), file=link,
                         about=study.about)]
    more, missing = [], []
    for question in study.questions:
        if not has_rows(rows, question):
            missing.append(f'- {question.heading}\n')
            continue
        text = section(study, rows, question, figures)
        if question.pairs:
            parts.append(f'## {question.heading}\n\n{text}')
        else:
            more.append(f'**{question.heading}**\n\n{text}')
    if more:
        parts.append(FOLDED.format(tables='\n'.join(more)))
    if missing:
        parts.append(f'## Not computed yet\n\n{"".join(missing)}')
    if study.limits:
        parts.append(f'## Limits\n\n{study.limits}\n')
    return '\n'.join(parts)


def draw_all(study: Study, rows: Rows, folder: Path) -> None:
    """Draw a figure for each question."""
    colors = colors_of(study)
    for question in study.questions:
        if question.pairs and has_rows(rows, question):
            draw_forest({'': answer(study, rows, question)}, colors,
                        folder / f'{question.name}.svg')
    if study.headline:
        draw_forest({question.title: answer(study, rows, question)
                     for question in study.headline}, colors,
                    folder / 'headline.svg')


class Reported(NamedTuple):
    """A study of the project, its rows and their file."""
    study: Study
    rows: Rows
    results: Path


def overview(studies: Sequence[Reported]) -> str:
    """An answer, a figure and a link for each question of several seeds."""
    parts = []
    for study, rows, results in studies:
        parts.append(f'## {study.title}')
        for question in study.questions:
            if (len(question.seeds) == 1 or not question.pairs
                    or not has_rows(rows, question)):
                continue
            found = answer(study, rows, question)
            link = f'evidence/{results.stem}.md#{anchor(question.heading)}'
            parts += [f'### {question.heading}',
                      f'{summarize(found)} [More]({link})',
                      figure(question, found, 'evidence/')]
    return '\n\n'.join(parts)


def anchor(heading: str) -> str:
    """The anchor of a heading, as git hosts name it."""
    return re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')


def read_own() -> list[Reported]:
    """Read the studies of the project."""
    found = []
    for file, results in OWN.items():
        study = runpy.run_path(str(file))['STUDY']
        found.append(Reported(study, read_rows(results), results))
    return found


def fill(text: str, name: str, block: str) -> str:
    """Replace the text between ``<!-- name -->`` markers, if there are any."""
    start, end = f'<!-- {name} -->', f'<!-- /{name} -->'
    return re.sub(f'({start}).*({end})', lambda match: (
        f'{match[1]}\n{block}\n{match[2]}'), text, flags=re.DOTALL)


def fill_docs(studies: Sequence[Reported]) -> None:
    """Write the project's studies into its pages, and draw their figures."""
    blocks, everything = {'overview': overview(studies)}, {}
    for study, rows, results in studies:
        everything |= rows
        blocks[results.stem] = page(study, rows, results.name)
        draw_all(study, rows, DOCS / 'evidence')
    ratios = read_speed(DOCS / 'evidence/speed.csv')
    blocks['speed'] = speed_table(ratios)
    draw_speed(ratios, DOCS / 'evidence/speed.svg')
    for file in [ROOT / 'README.md', *sorted(DOCS.rglob('*.md'))]:
        text = file.read_text('utf-8')
        for name, block in blocks.items():
            text = fill(text, name, block)
        file.write_text(fill_numbers(text, everything), 'utf-8')


def main() -> None:
    """Write the page."""
    study, results = load_study(study_parser(__doc__).parse_args())
    rows, out = read_rows(results), results.parent / 'evidence.md'
    if not rows:
        raise UserError(f"'{results}' has no rows: run "
                        'projects/study/run.py first')
    with figure_style():
        if results in OWN.values():
            out = results.with_suffix('.md')
            fill_docs(read_own())
        else:
            link = os.path.relpath(results, out.parent)
            out.write_text(page(study, rows, link, 'evidence/'), 'utf-8')
            draw_all(study, rows, out.parent / 'evidence')
    print(f'{len(rows)} rows, {len(study.questions)} questions: {out}')


if __name__ == '__main__':
    report_user_errors(main)
