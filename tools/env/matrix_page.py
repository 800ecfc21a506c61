# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The page of the matrix of environments, written from its rows."""
from pathlib import Path

HEAD = """# Environments in which the tests were run

Written by `python tools/env/matrix.py` from
[compatibility.jsonl](compatibility.jsonl), which holds a row for each part of
the tests with the versions, the commit and the date of its run. Linux x86-64,
no GPU, operators for the CPU. Left out: the tests of the demo and of
`make env`, which are of the lock alone.

Oldest versions: Python 3.10, torch 2.6.0, torchvision 0.21.0, numpy 1.26.4.
torch 2.6 is the first whose safe unpickler can be told the names that
mmengine's checkpoints hold; an older one is refused in one line.
"""
COLUMNS = ('environment', 'Python', 'torch', 'numpy', 'passed', 'failed',
           'skipped', 'parts', 'commit', 'date')


def write_page(page: Path, entries: dict, rows: list, parts: list) -> None:
    """Write the table, what failed, and how each environment is made.

    Args:
        page (Path): The file.
        entries (dict): The environments by name.
        rows (list[dict]): As ``matrix.py`` keeps them.
        parts (list[str]): All parts of the tests.
    """
    text = f'{HEAD}\n| {" | ".join(COLUMNS)} |\n|{"---|" * len(COLUMNS)}\n'
    for name, entry in entries.items():
        own = [r for r in rows if r['entry'] == name]
        text += table_line(entry, own, parts)
    text += '\n'.join(['', '## What failed', '', *failures(entries, rows)])
    text += '\n\n## How each was made\n'
    for name, entry in entries.items():
        text += f'\n**{entry.title}**'
        own = [r for r in rows if r['entry'] == name]
        if own:
            text += ': ' + ', '.join(
                f'{package} {version}'
                for package, version in own[-1]['versions'].items())
        text += '\n\n' + ''.join(
            '    ' + step.format(pip='pip install', python='python') + '\n'
            for step in entry.steps)
    page.write_text(text)


def table_line(entry, rows: list, parts: list) -> str:
    if not rows:
        empty = ' not measured |' * (len(COLUMNS) - 1)
        return f'| {entry.title} |{empty}\n'
    versions = rows[-1]['versions']
    sums = (str(sum(row[kind] for row in rows))
            for kind in ('passed', 'failed', 'skipped'))
    cells = (entry.title, versions['python'], versions['torch'],
             versions['numpy'], *sums, f'{len(rows)} of {len(parts)}',
             ', '.join(sorted({row['commit'] for row in rows})),
             ', '.join(sorted({row['date'] for row in rows})))
    return '| ' + ' | '.join(cells) + ' |\n'


def failures(entries: dict, rows: list) -> list:
    lines = [f'- {entries[row["entry"]].title}: `{test}`'
             for row in rows if row['entry'] in entries
             for test in row['failures']]
    return lines or ['Nothing of what was run.']
