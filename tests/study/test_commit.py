# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Rows name the code that they were measured with."""
import subprocess

from projects.drawn_world.study.running import commit


def git(folder, *arguments):
    subprocess.run(
        ['git', '-C', str(folder), '-c', 'user.name=a', '-c', 'user.email=b',
         *arguments], check=True, capture_output=True)


def test_rows_do_not_make_the_code_another(tmp_path):
    assert commit(tmp_path) == 'unknown'
    git(tmp_path, 'init')
    (tmp_path / 'docs').mkdir()
    for name in ('code.py', 'docs/rows'):
        (tmp_path / name).write_text('first')
    git(tmp_path, 'add', '.')
    git(tmp_path, 'commit', '-m', 'first')
    clean = commit(tmp_path)
    assert len(clean) == 12
    (tmp_path / 'docs' / 'rows').write_text('more')
    assert commit(tmp_path) == clean
    (tmp_path / 'code.py').write_text('other')
    assert commit(tmp_path) == f'{clean}-dirty'
