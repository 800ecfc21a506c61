# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write what the study has found: docs/evidence/README.md and its pictures."""
import argparse
from pathlib import Path

from run import ARMS, ROWS

from qbheat_mm.analysis.figures.style import in_style
from qbheat_mm.launching import report_user_errors
from qbheat_mm.study import Results
from qbheat_mm.study.files import load_study
from qbheat_mm.study.report import draw, to_markdown
from qbheat_mm.study.running import machine

HEAD = """# Evidence

What the study has measured, question by question. Written by
`python tools/study/report.py` from the rows of
[results.jsonl](results.jsonl) ({rows} runs on: {machine}), which
`python tools/study/run.py` adds to; see [study.md](../study.md) for the data,
the arms, the statistics, and what all this cannot show.
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--study', type=Path, default=ARMS, metavar='FILE',
                        help='the file that declares arms and questions')
    parser.add_argument('--results', type=Path, default=ROWS)
    parser.add_argument('--machine', default=machine(),
                        help="whose rows, as 'cpu'; by default this one's")
    parser.add_argument('--out', type=Path, help='folder; by default that '
                        'of the rows')
    args = parser.parse_args()
    out = args.out or args.results.parent
    out.mkdir(parents=True, exist_ok=True)
    study, questions = load_study(args.study)
    results = Results(args.results, args.machine)
    text = [HEAD.format(rows=len(results.rows), machine=args.machine)]
    for question in questions:
        text.append(to_markdown(study, results, question))
        with in_style():
            draw(study, results, question).savefig(
                out / f'{question.name}.svg', metadata=dict(Date=None))
    (out / 'README.md').write_text('\n'.join(text), encoding='utf-8')
    print(f'{len(questions)} questions answered in {out / "README.md"}')


if __name__ == '__main__':
    report_user_errors(main)
