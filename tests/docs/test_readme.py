# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tables of the study on other pages are those of docs/evidence.md."""
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPARED = ('lin, top-1', 'tran-1-64, top-1', 'RetinaNet, AP')


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


def test_the_page_of_own_data_tells_what_settings_made():
    """Each difference, and of how many seeds it is."""
    (_, rows), = (each for each in tables(ROOT / 'docs/own_data.md')
                  if each[0][0] == 'setting')
    seeds, measured = {}, {}
    for columns, lines in tables(ROOT / 'docs/evidence.md'):
        for encoder, *figures in lines:
            if columns[:2] == ['encoder', 'seeds'] and {*COMPARED} <= {
                    *columns}:
                seeds[encoder] = figures[0].split()[0]
            elif columns[:2] == ['against QB-Heat', 'lin, top-1']:
                measured[encoder] = [figures[columns.index(name) - 1].split(
                    ' ')[0] for name in COMPARED]
    assert len(rows) > 5
    for setting, *figures, of_seeds in rows:
        encoder = setting.split(', `')[0]
        assert figures == measured[encoder], encoder
        assert of_seeds.split(',')[0] == seeds[encoder], encoder
