# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Parameters and multiply-adds beside the published ones.

Prints docs/model_sizes.md. Nothing is computed: the count takes seconds on any
machine. Detection heads are left out without mmdet.
"""
import argparse
import csv
import importlib.util
from pathlib import Path

from mmengine.config import Config

from qbheat_mm.analysis.model_size import build_without_memory, count
from qbheat_mm.cli import report_user_errors

ROOT = Path(__file__).resolve().parents[2]
# As published: encoders and detectors in the captions and columns of the
# tables of results, V1 with its weights.
PUBLISHED = Path(__file__).with_name('published_sizes.csv')

#: The page around the tables.
TEMPLATE = Path(__file__).with_name('model_sizes.md')

HEADER = ['model', 'image', 'params (M)', 'published', 'difference',
          'MAdds (G)', 'published', 'difference', 'config']
LEFT = (0, 1, 8)  # columns of text


def published() -> list[dict]:
    """Read the table of published sizes."""
    with open(PUBLISHED, encoding='utf-8', newline='') as file:
        return list(csv.DictReader(file))


def measure(row: dict) -> tuple[float, float]:
    """Count millions of parameters and billions of multiply-adds.

    Args:
        row (dict): Of :func:`published`.
    """
    model = build_without_memory(
        Config.fromfile(ROOT / 'configs' / row['config']))
    params, madds = count(row['part'], model,
                          (int(row['height']), int(row['width'])))
    return params / 1e6, madds / 1e9


def cells(row: dict, params: float, madds: float) -> list[str]:
    """Format a row of :func:`published` with what was counted."""
    return [
        row['name'], f'{row["height"]}x{row["width"]}', f'{params:.2f}',
        *compare(params, row['params_m']), f'{madds:.3f}',
        *compare(madds, row['madds_g']), row['config']]


def compare(ours: float, printed: str) -> list[str]:
    """The published figure and the difference."""
    return [printed, f'{100 * (ours / float(printed) - 1):+.1f}%']


def format_table(rows: list[list[str]]) -> str:
    """Format a Markdown table, readable in a terminal as well."""
    widths = [max(map(len, column)) for column in zip(HEADER, *rows)]
    rule = ['-' * width if i in LEFT else '-' * (width - 1) + ':'
            for i, width in enumerate(widths)]
    return '\n'.join('| ' + ' | '.join(
        cell.ljust(width) if i in LEFT else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths))) + ' |'
        for row in (HEADER, rule, *rows))


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows = published()
    if importlib.util.find_spec('mmdet'):
        import qbheat_mm.detection  # noqa: F401
    else:
        rows = [row for row in rows if row['part'] != 'Detection heads']
    tables = [
        f'## {part}\n\n' + format_table([
            cells(row, *measure(row)) for row in rows if row['part'] == part])
        for part in dict.fromkeys(row['part'] for row in rows)]
    print(TEMPLATE.read_text(encoding='utf-8').replace(
        'TABLES', '\n\n'.join(tables)), end='')


if __name__ == '__main__':
    report_user_errors(main)
