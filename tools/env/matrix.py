# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run the tests in every environment that is promised, and write it down.

    python tools/env/matrix.py [ENTRY ...]

makes each environment by the steps of the README, runs the tests in it and
keeps a row for each part of them in docs/compatibility.jsonl, of which
docs/compatibility.md is written. Takes hours and some 10 GB. What was done is
not done again: a run that was killed goes on where it stopped. Needs the
Pythons of the entries, on the PATH, of pyenv or of uv.
"""
import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

from installers import find_uv
from matrix_page import write_page
from shell import EnvError, cache_dir, run, say

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / 'docs' / 'compatibility.jsonl'
PAGE = ROOT / 'docs' / 'compatibility.md'

# The demo and the making of `.venv` are of the lock alone.
LEFT_OUT = ('demo', 'tools/test_make_env.py')
SHOWN = ('python', 'torch', 'torchvision', 'numpy', 'mmengine', 'mmcv',
         'mmcv-lite', 'mmdet', 'mmdetection', 'mmpretrain', 'openmim', 'mim')
OPERATORS = '{python} -m qbheat_mm.build_mmcv'
TESTS = "{pip} -e '.[demo,tests]'"


class Entry(NamedTuple):
    """An environment.

    Args:
        title (str): What it is, for the page.
        python (str): ``X.Y``.
        steps (tuple[str]): Shell commands, run in the project's folder.
            ``{pip}`` is what installs, ``{python}`` the interpreter.
    """
    title: str
    python: str
    steps: tuple


ENTRIES = dict(
    newest=Entry(
        'upstream, newest torch', '3.11',
        ('{pip} torch torchvision', "{pip} -e '.[openmmlab]'", OPERATORS,
         TESTS)),
    fork=Entry(
        'maintained fork, newest torch', '3.12',
        ('{pip} torch torchvision', "{pip} -e '.[onedl]'", OPERATORS, TESTS)),
    lite=Entry(
        'without operators (mmcv-lite), newest torch', '3.11',
        ("{pip} torch torchvision 'setuptools<81' wheel",
         "{pip} --no-build-isolation -e '.[pretrain]'", TESTS)),
    oldest=Entry(
        'upstream, oldest torch and numpy 1', '3.10',
        ("{pip} torch==2.6.0 torchvision==0.21.0 'numpy<2'",
         "{pip} 'numpy<2' -e '.[openmmlab]'", OPERATORS,
         "{pip} 'numpy<2' -e '.[demo,tests]'")),
    python313=Entry(
        'upstream, newest torch, Python 3.13', '3.13',
        ('{pip} torch torchvision', "{pip} -e '.[openmmlab]'", OPERATORS,
         TESTS)),
    lock=Entry('upstream, the lock of `make env`', '3.11', ('make env', )))


class Environment:
    """One entry, made in ``folder`` step by step.

    Args:
        name (str): Of the entry.
        folder (Path): Where the environment is kept.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.entry = name, ENTRIES[name]
        self.venv = ROOT / '.venv' if name == 'lock' else folder / name
        self.python = self.venv / 'bin' / 'python'
        self.done = folder / f'{name}.json'

    def make(self) -> None:
        """Run the steps that were not done yet."""
        done = json.loads(self.done.read_text()) if self.done.exists() else []
        for step in self.entry.steps:
            if step in done:
                continue
            uv = ' '.join(find_uv())
            if not done and self.name != 'lock':
                run([*find_uv(), 'venv', '-q', '--clear', '--python',
                     find_python(self.entry.python), str(self.venv)])
            command = step.format(
                pip=f'{uv} pip install -q --python {self.python}',
                python=self.python)
            say(f'{self.name}: {command}')
            run(['bash', '-c', command], cwd=ROOT,
                env=dict(os.environ, UV_COMPILE_BYTECODE='1'))
            done.append(step)
            self.done.write_text(json.dumps(done))

    def versions(self) -> dict:
        """What is installed, ``{name: version}``, Python among it."""
        code = ('import importlib.metadata as m, json, platform\n'
                'print(json.dumps(dict({d.metadata["Name"]: d.version\n'
                '    for d in m.distributions()},\n'
                '    python=platform.python_version())))')
        found = json.loads(subprocess.check_output(
            [str(self.python), '-c', code], text=True))
        return {name: version for name, version in sorted(found.items())
                if name.replace('onedl-', '') in SHOWN}


def find_python(version: str) -> str:
    """An interpreter of version ``X.Y``, or the version for uv to find.

    One on the PATH may be a shim of pyenv that stands for none.
    """
    on_path = shutil.which(f'python{version}')
    pyenv = sorted((Path.home() / '.pyenv' / 'versions').glob(
        f'{version}.*/bin/python'))
    for python in filter(None, (on_path, *map(str, reversed(pyenv)))):
        if not subprocess.run([python, '-c', ''],
                              capture_output=True).returncode:
            return python
    return version


def parts() -> list:
    """The tests in pieces of some minutes, folders and files."""
    tests = ROOT / 'tests'
    return sorted(
        path.relative_to(tests).as_posix() for path in tests.iterdir()
        if path.name not in ('data', *LEFT_OUT) and (
            path.is_dir() and list(path.rglob('test_*.py'))
            or path.match('test_*.py')))


def run_part(environment: Environment, part: str, folder: Path,
             workers: int) -> dict:
    """Run one part of the tests; return its row."""
    report = folder / f'{environment.name}.xml'
    report.unlink(missing_ok=True)
    # Not by its name: pytest would ask for what its common parts import.
    others = [name for name in parts() if name != part]
    command = [str(environment.python), '-m', 'pytest', '-q', '-p',
               'no:cacheprovider', f'--junitxml={report}', 'tests',
               *(f'--ignore=tests/{name}' for name in (*others, *LEFT_OUT))]
    if workers > 1:
        command += ['-n', str(workers), '--dist', 'loadfile']
    with open(folder / f'{environment.name}-{Path(part).stem}.log',
              'w') as log:
        code = subprocess.call(command, cwd=ROOT, stdout=log,
                               stderr=subprocess.STDOUT)
    if not report.exists():
        raise EnvError(f'pytest ended with status {code}: see {log.name}')
    return dict(
        entry=environment.name, part=part, **counts(report),
        versions=environment.versions(), commit=commit(),
        date=datetime.date.today().isoformat())


def counts(report: Path) -> dict:
    """Read the numbers of tests off a report of pytest."""
    suite = ElementTree.parse(report).getroot().find('testsuite')
    total, failed, skipped = (
        int(suite.get('tests')),
        int(suite.get('failures')) + int(suite.get('errors')),
        int(suite.get('skipped')))
    names = [f'{case.get("classname")}::{case.get("name")}'
             for case in suite.iter('testcase')
             if case.find('failure') is not None
             or case.find('error') is not None]
    return dict(passed=total - failed - skipped, failed=failed,
                skipped=skipped, failures=names,
                seconds=round(float(suite.get('time'))))


def commit() -> str:
    return subprocess.check_output(['git', 'rev-parse', '--short', 'HEAD'],
                                   cwd=ROOT, text=True).strip()


def read_rows() -> list:
    if not ROWS.exists():
        return []
    return [json.loads(line) for line in ROWS.read_text().splitlines()]


def keep(row: dict) -> None:
    """Put a row in the place of an older one of the same tests."""
    rows = [r for r in read_rows()
            if (r['entry'], r['part']) != (row['entry'], row['part'])]
    rows.append(row)
    ROWS.write_text(''.join(f'{json.dumps(r)}\n' for r in rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('entries', nargs='*', metavar='ENTRY',
                        help=', '.join(ENTRIES) + '; by default all')
    parser.add_argument('--folder', type=Path, default=cache_dir() / 'matrix',
                        help='where environments and logs are kept')
    parser.add_argument('--again', action='store_true',
                        help='run also what has a row')
    parser.add_argument('--make-only', action='store_true',
                        help='make the environments, run no tests')
    parser.add_argument('--workers', type=int, default=1,
                        help='processes of pytest; defaults to 1')
    args = parser.parse_args()
    unknown = set(args.entries) - set(ENTRIES)
    if unknown:
        parser.error(f'no entry {", ".join(sorted(unknown))}: there are '
                     f'{", ".join(ENTRIES)}')
    args.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    try:
        for name in args.entries or ENTRIES:
            environment = Environment(name, args.folder)
            environment.make()
            there = {(r['entry'], r['part']) for r in read_rows()}
            for part in [] if args.make_only else parts():
                if args.again or (name, part) not in there:
                    say(f'{name}: tests/{part}')
                    row = run_part(environment, part, args.folder,
                                   args.workers)
                    failed += row['failed']
                    keep(row)
    except EnvError as error:
        print(f'matrix: {error}', file=sys.stderr)
        return 1
    finally:
        write_page(PAGE, ENTRIES, read_rows(), parts())
    return int(failed > 0)


if __name__ == '__main__':
    sys.exit(main())
