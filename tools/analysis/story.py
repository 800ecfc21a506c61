# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Show a run on one page, index.html: its curves and all reports on it.

FOLDER is the work folder of any run, finished or not, or a folder of reports:
JSON files that the other tools of this folder write; any tool may write one
(see docs/analysis.md).
"""
import argparse
import os.path as osp
import time
from pathlib import Path

from qbheat_mm.analysis.run_log import report_run
from qbheat_mm.cli.arguments import count, target
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError
from qbheat_mm.report import find_reports, render_page
from qbheat_mm.utils.atomic_write import atomic_write

INTRODUCTION = 'Every picture and number was made by the command below it.'


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'folder', help='work folder of a run, or a folder of reports, also '
        'nested ones')
    parser.add_argument(
        '--out', type=target,
        help='page to write; defaults to FOLDER/index.html')
    parser.add_argument(
        '--title', help='headline; defaults to the name of the folder')
    parser.add_argument(
        '--every', type=count, metavar='SECONDS',
        help='rewrite the page until interrupted; browsers reload it')
    return parser.parse_args(argv)


def write_page(args: argparse.Namespace) -> None:
    """Write the page as of now.

    Raises:
        UserError: If there is nothing to show.
    """
    reports = report_run(args.folder) + find_reports(args.folder)
    if not reports:
        raise UserError(f"'{args.folder}' holds no report of an analysis and "
                        'no log of a run (TIME/vis_data/scalars.json): give '
                        'the work folder of a run, or run the other tools of '
                        'tools/analysis with --out there')
    title = args.title or osp.basename(osp.abspath(args.folder))
    out = args.out or osp.join(args.folder, 'index.html')
    with atomic_write(out) as part:
        Path(part).write_text(
            render_page(title, INTRODUCTION, reports, args.every),
            encoding='utf-8')
    print(f'{len(reports)} reports on one page: {out}', flush=True)


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    write_page(args)
    while args.every:
        try:
            time.sleep(args.every)
        except KeyboardInterrupt:
            return
        write_page(args)


if __name__ == '__main__':
    report_user_errors(main)
