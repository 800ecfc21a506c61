# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The matrix of environments: what is kept, gone on with and written."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

from qbheat_mm.check_env import COMMON, MIN_PYTHON

ROOT = Path(__file__).resolve().parents[2]
ROW = dict(entry='lite', part='layers', passed=3, failed=1, skipped=2,
           failures=['tests.layers::test_x'], seconds=9, commit='abc',
           date='2026-11-21', versions=dict(
               python='3.11.7', torch='2.15.0', numpy='2.4.6'))


@pytest.fixture
def matrix(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / 'tools' / 'env'))
    import matrix
    monkeypatch.setattr(matrix, 'ROWS', tmp_path / 'rows.jsonl')
    monkeypatch.setattr(matrix, 'PAGE', tmp_path / 'page.md')
    return matrix


def test_a_part_that_is_run_again_replaces_its_row(matrix):
    matrix.keep(ROW)
    matrix.keep({**ROW, 'part': 'models'})
    matrix.keep({**ROW, 'passed': 4})
    assert [(r['part'], r['passed']) for r in matrix.read_rows()] == [
        ('models', 3), ('layers', 4)]


def test_the_page_tells_what_was_and_what_was_not_measured(matrix):
    matrix.keep(ROW)
    matrix.keep({**ROW, 'part': 'models', 'commit': 'abd', 'failures': []})
    matrix.write_page(matrix.PAGE, matrix.ENTRIES, matrix.read_rows(),
                      ['layers', 'models', 'tools'])
    lines = matrix.PAGE.read_text().splitlines()
    measured, = [line for line in lines if '2.15.0 | ' in line]
    assert '| 6 | 2 | 4 | 2 of 3 | abc, abd |' in measured
    assert sum('not measured' in line for line in lines) == (
        len(matrix.ENTRIES) - 1)
    assert '`tests.layers::test_x`' in matrix.PAGE.read_text()


def test_tests_are_counted_by_their_outcome(matrix, tmp_path):
    (tmp_path / 'test_it.py').write_text(
        'import pytest\n'
        'def test_well(): pass\n'
        'def test_fails(): assert False\n'
        'def test_skips(): pytest.skip("no")\n'
        '@pytest.fixture\n'
        'def broken(): raise ValueError\n'
        'def test_errs(broken): pass\n')
    subprocess.run([sys.executable, '-m', 'pytest', '-q', '--junitxml=r.xml',
                    '-p', 'no:cacheprovider'], cwd=tmp_path,
                   capture_output=True)
    found = matrix.counts(tmp_path / 'r.xml')
    assert (found['passed'], found['failed'], found['skipped']) == (1, 2, 1)
    assert [name.split('::')[1] for name in found['failures']] == [
        'test_fails', 'test_errs']


def test_an_environment_is_made_on_from_where_it_stopped(
        matrix, monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(matrix, 'find_uv', lambda: ['uv'])

    def run(command, **_):
        if 'two' in command[-1] and 'two' not in ran:
            ran.append('two')
            raise matrix.EnvError('killed')
        ran.append(command[-1].split()[-1])

    monkeypatch.setattr(matrix, 'run', run)
    monkeypatch.setitem(matrix.ENTRIES, 'x', matrix.Entry(
        'x', '3.11', ('{pip} one', '{pip} two')))
    with pytest.raises(matrix.EnvError):
        matrix.Environment('x', tmp_path).make()
    matrix.Environment('x', tmp_path).make()
    assert ran[1:] == ['one', 'two', 'two']  # the folder is made once
    assert json.loads((tmp_path / 'x.json').read_text()) == [
        '{pip} one', '{pip} two']


def test_the_entries_try_the_oldest_that_is_promised(matrix):
    oldest = matrix.ENTRIES['oldest']
    assert oldest.python == MIN_PYTHON
    for name in ('torch', 'torchvision'):
        assert f'{name}=={COMMON[name][1]}.' in oldest.steps[0]


def test_every_part_of_the_tests_is_in_the_matrix(matrix):
    parts = matrix.parts()
    assert {'detection', 'tools', 'test_packaging.py'} <= set(parts)
    assert 'demo' not in parts


def test_the_entries_follow_the_readme(matrix):
    readme = (ROOT / 'README.md').read_text()
    for name in ('newest', 'lite'):
        for step in matrix.ENTRIES[name].steps[:-1]:
            assert step.format(pip='pip install', python='python') in readme


def test_a_shim_that_runs_nothing_is_no_interpreter(matrix, monkeypatch,
                                                    tmp_path):
    def put(path, status):
        path.parent.mkdir(parents=True)
        path.write_text(f'#!/bin/sh\nexit {status}\n')
        path.chmod(0o755)
        return str(path)

    shim = put(tmp_path / 'bin/python3.77', 127)
    monkeypatch.setenv('PATH', str(tmp_path / 'bin'), prepend=':')
    monkeypatch.setattr(matrix.Path, 'home', lambda: tmp_path)
    assert matrix.find_python('3.77') == '3.77'
    kept = put(tmp_path / '.pyenv/versions/3.77.1/bin/python', 0)
    assert matrix.find_python('3.77') == kept
    Path(shim).write_text('#!/bin/sh\n')
    assert matrix.find_python('3.77') == shim
