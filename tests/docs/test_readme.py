# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The README's table of the study is the page's, cell by cell."""
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tables(path):
    """Every Markdown table of a page: its head and its lines, in cells."""
    found, lines = [], []
    for line in [*path.read_text(encoding='utf-8').splitlines(), '']:
        if line.startswith('|'):
            lines.append([cell.strip() for cell in line.strip('|').split('|')])
        elif lines:
            found.append((lines[0], lines[2:]))
            lines = []
    return found


def test_the_readme_tells_what_the_study_found():
    told = [(head, rows) for head, rows in tables(ROOT / 'README.md')
            if 'tran-1-64, top-1' in head]
    assert len(told) == 1
    head, rows = told[0]
    measured = {}
    for columns, lines in tables(ROOT / 'docs/evidence.md'):
        if columns[:2] == ['encoder', 'seeds']:
            for encoder, *figures in lines:
                measured.setdefault(encoder, {}).update(
                    zip(columns[2:], figures[1:]))
    assert len(rows) > 5
    for encoder, *figures in rows:
        expected = [measured[encoder][column] for column in head[1:]]
        assert figures == expected, encoder
