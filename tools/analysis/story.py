# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Show a run on one page, index.html: what it logs, and all reports on it.

FOLDER is the work folder of any run, also of one that still trains, or a
folder of reports: JSON files that the other tools of this folder write; any
tool may write one (see docs/analysis.md).
"""
import argparse
import os.path as osp
import sys
import time
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from qbheat_mm.analysis.report import Report, read_report
from qbheat_mm.analysis.run_log import report_run
from qbheat_mm.analysis.story import tell
from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.cli.command_line import target
from qbheat_mm.errors import UserError
from qbheat_mm.utils.atomic_write import atomic_write

RUN = ('This page shows what a run has logged. Every picture and number was '
       'made by the command below it.')
INTRODUCTION = (
    'QB-Heat lets an encoder see one quarter of an image, extrapolates its '
    'features to the other three by linear models (A to the right, B '
    'downwards), and predicts the pixels. This page shows what one run has '
    'learned. Every picture and number on it was made by the command below '
    'it.')


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'folder', help='work folder of a run, or a folder of reports, also '
        'nested ones')
    parser.add_argument(
        '--out', type=target,
        help='the page to write; defaults to FOLDER/index.html')
    parser.add_argument('--title', help='headline')
    parser.add_argument('--introduction', help='first paragraph')
    parser.add_argument(
        '--every', type=count, metavar='SECONDS',
        help='write the page again and again, until interrupted; a browser '
        'that shows it reloads it')
    return parser.parse_args()


def find_reports(folder: str) -> list[tuple[Report, list[bytes]]]:
    """Find the reports below a folder, with the content of their pictures.

    Raises:
        UserError: If a report is malformed, or a picture is no PNG file.
    """
    found = []
    for file in sorted(Path(folder).rglob('*.json')):
        report = read_report(str(file)) if file.is_file() else None
        if report is None:
            continue
        pictures = {}
        for name in report.pictures:
            picture = file.parent / name
            if not picture.is_file():
                print(f"warning: picture '{picture}' of '{file}' is missing",
                      file=sys.stderr)
                continue
            try:
                Image.open(picture, formats=['PNG']).close()
            except UnidentifiedImageError as error:
                raise UserError(f"picture '{picture}' of '{file}' is no PNG "
                                'file') from error
            pictures[name] = picture.read_bytes()
        report.pictures = list(pictures)
        found.append((report, list(pictures.values())))
    return found


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
    is_method = any(report.analysis not in ('curves', 'looks')
                    or report.numbers.get('is_pretraining')
                    for report, _ in reports)
    title = args.title or ('What QB-Heat has learned' if is_method else
                           osp.basename(osp.abspath(args.folder)))
    page = tell(title, args.introduction or (
        INTRODUCTION if is_method else RUN), reports, args.every)
    out = args.out or osp.join(args.folder, 'index.html')
    with atomic_write(out) as part:
        Path(part).write_text(page, encoding='utf-8')
    print(f'{len(reports)} reports on one page: {out}', flush=True)


def main() -> None:
    args = parse_args()
    write_page(args)
    while args.every:
        try:
            time.sleep(args.every)
        except KeyboardInterrupt:
            return
        write_page(args)


if __name__ == '__main__':
    report_user_errors(main)
