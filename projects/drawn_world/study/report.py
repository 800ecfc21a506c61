# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write what the study has found: docs/evidence.md and its pictures."""
import argparse
import os
from io import BytesIO
from pathlib import Path

import matplotlib
from run import ARMS, DOCS, ROWS, check_rows

from projects.drawn_world.study import Results, Study
from projects.drawn_world.study.files import load_study
from projects.drawn_world.study.machine import default_devices, machine
from projects.drawn_world.study.running import check_settings
from projects.drawn_world.study.tables import (
    draw,
    is_measured,
    plain,
    summary,
    table,
    to_markdown,
    to_report,
)
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.analysis.story import tell
from qbheat_mm.analysis.style import in_style
from qbheat_mm.cli import report_user_errors
from qbheat_mm.cli.command_line import folder, target
from qbheat_mm.errors import UserError

TITLE = 'Evidence'
SUMMARY = 'At a glance'
HOW_TO_SUM = """Differences, means over seeds, in how many of them the sign is
that of the mean, and the p-value where there are seeds enough for a test."""
HEAD = """# {title}

What the study has measured, question by question: {rows} runs on: {machine}.
Written by `python projects/drawn_world/study/report.py` from the rows of
[{file}]({file}), to which
`python projects/drawn_world/study/run.py` adds.
"""
HOW_TO_READ = """{about}

Differences are means over seeds with 95 % intervals, which are too narrow for
so few; what decides is the p-value, corrected over all comparisons of a
question. Of fewer than six seeds no test can say that a difference is more
than luck; their signs stand in its place. In tables a number in brackets says
of how many seeds a figure is where they are fewer than those of its row.
"None" is a figure that an encoder of its kind does not have, "not asked" one
that the study does not measure of it.
"""


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--study', type=Path, default=ARMS, metavar='FILE',
                        help='the file that declares arms and questions')
    parser.add_argument('--results', type=Path, default=ROWS, metavar='FILE',
                        help='the file of rows')
    parser.add_argument('--machine', metavar='NAME',
                        help="whose rows, as 'cpu'; by default this one's")
    parser.add_argument('--out', type=folder, metavar='FOLDER',
                        help='of evidence.md; pictures go to evidence/ '
                        "there; by default docs, or other rows' own folder")
    parser.add_argument('--html', type=target, metavar='FILE',
                        help='write the same as one page, too')
    args = parser.parse_args()
    args.out = Path(args.out or (
        DOCS if DOCS.is_dir() and args.results.resolve() == ROWS
        else args.results.parent))
    return args


def check(args: argparse.Namespace, study: Study, results: Results) -> None:
    """Raise UserError for rows that are another's, or none at all."""
    check_rows(args.study, args.results)
    if not results.machines:
        raise UserError(f"'{results.path}' has no rows: run "
                        'projects/drawn_world/study/run.py first')
    if not results.rows:
        raise UserError(
            f"'{results.path}' has no row of the machine "
            f"'{results.machine}': give --machine one of " + ', '.join(
                f"'{name}'" for name in results.machines))
    check_settings(study, results)


def introduction(study, results, questions) -> str:
    """What the figures are of, how to read them, and what is open."""
    asked = [question.title for question in questions
             if not is_measured(results, question)]
    return HOW_TO_READ.format(about=study.about) + (
        f'\n**Not measured yet:** {" ".join(asked)}\n' if asked else '')


def write_markdown(study, results, questions, out: Path) -> None:
    """The document, and a picture for each question."""
    (out / 'evidence').mkdir(parents=True, exist_ok=True)
    text = [HEAD.format(title=TITLE, rows=len(results.rows),
                        machine=results.machine,
                        file=os.path.relpath(results.path, out)),
            introduction(study, results, questions), f'## {SUMMARY}', '',
            HOW_TO_SUM, '', *table(summary(study, results, questions)), '']
    for question in questions:
        text.append(to_markdown(study, results, question))
        if not is_measured(results, question):
            continue
        # text stays text, and equal figures give equal files
        with in_style(), matplotlib.rc_context(
                {'svg.fonttype': 'none', 'svg.hashsalt': question.name}):
            draw(study, results, question).savefig(
                out / 'evidence' / f'{question.name}.svg',
                metadata=dict(Date=None))
    (out / 'evidence.md').write_text('\n'.join(text), encoding='utf-8')


def write_html(study, results, questions, file: Path) -> None:
    """One page that needs no other file."""
    named = {question.name: question for question in questions}

    def picture(name: str) -> bytes:
        content = BytesIO()
        with in_style():
            draw(study, results, named[name]).savefig(content, dpi=150)
        return content.getvalue()

    head, *rows = summary(study, results, questions)
    reports = [
        Report('summary', SUMMARY, HOW_TO_SUM, [Table('', head, rows)]),
        *(to_report(study, results, question) for question in questions)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(tell(
        TITLE, plain(introduction(study, results, questions)),
        [(report, [picture(name) for name in report.pictures])
         for report in reports]), encoding='utf-8')


def main() -> None:
    """Write the page."""
    args = parse_args()
    study, questions = load_study(args.study)
    results = Results(args.results,
                      args.machine or machine(default_devices()[:1]))
    check(args, study, results)
    write_markdown(study, results, questions, args.out)
    if args.html:
        write_html(study, results, questions, Path(args.html))
    print(f'{len(questions)} questions, {len(results.rows)} rows: '
          f'{args.out / "evidence.md"}')


if __name__ == '__main__':
    report_user_errors(main)
