# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Collect the reports of a run into one page, index.html.

A report is a JSON file that the other tools of this folder write; any tool
may write one (see docs/analysis.md).
"""
import argparse
import json
import os
import os.path as osp

from qbheat_mm.analysis.story import in_order, tell
from qbheat_mm.errors import UserError
from qbheat_mm.launching import report_user_errors

INTRODUCTION = (
    'QB-Heat lets an encoder see one quarter of an image, extrapolates its '
    'features to the other three by linear models (A to the right, B '
    'downwards), and paints the pixels. This page shows what one run has '
    'learned. Every picture and number on it was made by the command below '
    'it.')
_PARTS = {'analysis', 'title', 'caption', 'tables', 'pictures', 'source'}


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'folder', help='where the reports are, also in folders inside')
    parser.add_argument(
        '--out', help='the page to write; defaults to FOLDER/index.html')
    parser.add_argument(
        '--title', default='What QB-Heat has learned', help='headline')
    parser.add_argument(
        '--introduction', default=INTRODUCTION, help='first paragraph')
    return parser.parse_args()


def find_reports(folder: str) -> list[dict]:
    """Reports below a folder, with their own folder under ``'folder'``.

    Raises:
        UserError: If there is none.
    """
    reports = []
    for root, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith('.json'):
                report = read_report(osp.join(root, name))
                if report is not None:
                    reports.append(dict(report, folder=root))
    if not reports:
        raise UserError(f"'{folder}' holds no report of an analysis: run the "
                        'other tools of tools/analysis with --out there')
    return reports


def read_report(file: str) -> dict | None:
    """The content of a report, None for any other JSON file."""
    with open(file) as stream:
        try:
            content = json.load(stream)
        except ValueError:
            # Logs are JSON by lines, which is not one JSON value.
            return None
    if isinstance(content, dict) and set(content) >= _PARTS:
        return content
    return None


def read_picture(report: dict, name: str) -> bytes:
    """A picture beside its report."""
    with open(osp.join(report['folder'], name), 'rb') as file:
        return file.read()


def main() -> None:
    """Write the page."""
    args = parse_args()
    reports = in_order(find_reports(args.folder))
    page = tell(args.title, args.introduction, reports, read_picture)
    out = args.out or osp.join(args.folder, 'index.html')
    with open(out, 'w', encoding='utf-8') as file:
        file.write(page)
    print(f'{len(reports)} reports on one page: {out}')


if __name__ == '__main__':
    report_user_errors(main)
