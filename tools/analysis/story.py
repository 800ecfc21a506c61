# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Show a run on one page, index.html: what it logs, and all reports on it.

FOLDER is the work folder of any run, also of one that trains, or a folder of
reports: JSON files that the other tools of this folder write; any tool may
write one (see docs/analysis.md).
"""
import argparse
import json
import os
import os.path as osp
import sys
import time

from qbheat_mm.analysis.report import is_report, require_report
from qbheat_mm.analysis.story import in_order, tell
from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.cli.command_line import target
from qbheat_mm.cli.run_report import report_run
from qbheat_mm.errors import UserError
from qbheat_mm.utils.atomic_write import atomic_write

RUN = ('This page shows what a run has logged. What is on it was made by the '
       'command below it.')
INTRODUCTION = (
    'QB-Heat lets an encoder see one quarter of an image, extrapolates its '
    'features to the other three by linear models (A to the right, B '
    'downwards), and predicts the pixels. This page shows what one run has '
    'learned. Every picture and number on it was made by the command below '
    'it.')


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'folder', help='work folder of a run, or where reports are, also in '
        'folders inside')
    parser.add_argument(
        '--out', type=target,
        help='the page to write; defaults to FOLDER/index.html')
    parser.add_argument(
        '--title', help='headline')
    parser.add_argument('--introduction', help='first paragraph')
    parser.add_argument(
        '--every', type=count, metavar='SECONDS',
        help='make the page again and again, until interrupted; a browser '
        'that shows it keeps up')
    return parser.parse_args()


def find_reports(folder: str) -> list[dict]:
    """Reports below a folder, with their own folder under ``'folder'``.

    What a copy has lost is left out with a word.
    """
    reports = []
    for root, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            file = osp.join(root, name)
            if not name.endswith('.json'):
                continue
            if not osp.isfile(file):
                print(f"warning: '{file}' leads nowhere and is left out",
                      file=sys.stderr)
                continue
            report = read_report(file)
            if report is not None:
                reports.append(dict(report, folder=root, pictures=[
                    picture for picture in report.get('pictures', ())
                    if _is_there(osp.join(root, picture), file)]))
    return reports


def _is_there(picture: str, report: str) -> bool:
    if osp.isfile(picture):
        return True
    print(f"warning: picture '{picture}' of '{report}' is not there and is "
          'left out', file=sys.stderr)
    return False


def read_report(file: str) -> dict | None:
    """The content of a report, None for any other JSON file.

    Raises:
        UserError: If a part of a report is of another type.
    """
    with open(file) as stream:
        try:
            content = json.load(stream)
        except ValueError:
            # Logs are JSON by lines, which is not one JSON value.
            return None
    if not is_report(content):
        return None
    require_report(content, file)
    content.pop('content', None)  # pictures of reports that are no files
    return content


def read_picture(report: dict, name: str) -> bytes:
    """A picture beside its report, or in it.

    Raises:
        UserError: If it is no PNG file.
    """
    if name in report.get('content', ()):
        return report['content'][name]
    path = osp.join(report['folder'], name)
    with open(path, 'rb') as file:
        content = file.read()
    if not content.startswith(b'\x89PNG'):
        raise UserError(f"picture '{path}' of a report is no PNG file")
    return content


def write_page(args: argparse.Namespace) -> None:
    """Write the page as things stand.

    Raises:
        UserError: If there is nothing to show, or no folder.
    """
    if not osp.isdir(args.folder):
        raise UserError(f"'{args.folder}' is no folder: give the work folder "
                        'of a run')
    reports = report_run(args.folder) + find_reports(args.folder)
    if not reports:
        raise UserError(f"'{args.folder}' holds no report of an analysis and "
                        'no log of a run (TIME/vis_data/scalars.json): give '
                        'the work folder of a run, or run the other tools of '
                        'tools/analysis with --out there')
    is_method = any(report['analysis'] not in ('curves', 'looks')
                    or report.get('numbers', {}).get('is_pretraining')
                    for report in reports)
    title = args.title or ('What QB-Heat has learned' if is_method else
                           osp.basename(osp.abspath(args.folder)))
    page = tell(title, args.introduction or (
        INTRODUCTION if is_method else RUN), in_order(reports), read_picture,
        args.every)
    out = args.out or osp.join(args.folder, 'index.html')
    with atomic_write(out) as part, open(part, 'w', encoding='utf-8') as file:
        file.write(page)
    print(f'{len(reports)} reports on one page: {out}', flush=True)


def main() -> None:
    """Write the page, once or until interrupted."""
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
