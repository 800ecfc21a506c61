# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What an installation contains, and what an import finds."""
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ('qbheat_mm', 'configs', 'tools', 'projects', 'requirements',
           'setup.py', 'MANIFEST.in', 'model-index.yml', 'LICENSE')
BUILD = ('import sys, setuptools.build_meta as backend; '
         'print(getattr(backend, sys.argv[1])(sys.argv[2]))')
# Tools that only work in a clone.
NOT_SHIPPED = ('tools/docs/', 'tools/release/', 'tools/env/')


def python(*args, cwd, executable=sys.executable, **variables):
    """Run Python and return the last line that it prints."""
    result = subprocess.run(
        [executable, *map(str, args)], cwd=cwd, capture_output=True,
        text=True, env={**os.environ, **variables})
    assert result.returncode == 0, result.stdout + result.stderr
    return (result.stdout.strip().splitlines() or [''])[-1]


def shipped(root):
    """Paths below ``.mim`` that an installation must contain."""
    names = (path.relative_to(root).as_posix()
             for name in ('configs', 'tools')
             for path in (root / name).rglob('*')
             if path.is_file() and '__pycache__' not in path.parts)
    return {'model-index.yml'} | {
        name for name in names if not name.startswith(NOT_SHIPPED)}


def mim_of(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    prefix = 'qbheat_mm/.mim/'
    return {n[len(prefix):] for n in names if n.startswith(prefix)}


@pytest.fixture
def tree(tmp_path):
    """A clone named after the package, with the litter of use."""
    root = tmp_path / 'qbheat_mm'
    root.mkdir()
    ignore = shutil.ignore_patterns('.mim', '__pycache__')
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, root / name)
    for folder in ('configs', 'tools'):
        cache = root / folder / '__pycache__'
        cache.mkdir()
        (cache / 'litter.cpython-311.pyc').write_bytes(b'')
    return root


def build(kind, tree):
    out = tree.parent / kind
    out.mkdir(exist_ok=True)
    return out / python('-c', BUILD, f'build_{kind}', out, cwd=tree)


def test_a_wheel_has_configs_and_tools_and_nothing_else(tree):
    (tree / 'configs' / 'gone.py').write_text('')
    build('wheel', tree)
    (tree / 'configs' / 'gone.py').unlink()
    wheel = build('wheel', tree)  # with nothing of the earlier build
    expected = shipped(tree)
    assert {'tools/train.py', 'model-index.yml'} < expected
    assert mim_of(wheel) == expected
    names = zipfile.ZipFile(wheel).namelist()
    assert 'qbheat_mm/analysis/templates/story.html' in names
    assert {name.split('/')[0].split('-')[0] for name in names} == {
        'qbheat_mm'}


def test_a_wheel_can_be_built_from_the_sdist(tree):
    build('editable', tree)  # its links must not travel
    with tarfile.open(build('sdist', tree)) as archive:
        names = archive.getnames()
        archive.extractall(tree.parent, filter='data')
    assert not [n for n in names if '.mim' in n or '__pycache__' in n]
    unpacked = tree.parent / names[0].split('/')[0]
    assert mim_of(build('wheel', unpacked)) == shipped(tree)


def test_an_editable_install_links_configs_and_tools(tree):
    for _ in range(2):  # again over what is there
        assert mim_of(build('editable', tree)) == set()
    mim = tree / 'qbheat_mm' / '.mim'
    assert {p.name for p in mim.iterdir()} == {
        'configs', 'tools', 'model-index.yml'}
    for path in mim.iterdir():
        assert path.is_symlink() and not path.readlink().is_absolute()
        assert path.resolve() == tree / path.name


def test_an_editable_install_copies_where_links_are_refused(tree):
    refuse = ('import pathlib\n'
              'def refused(*_): raise OSError("no links here")\n'
              'pathlib.Path.symlink_to = refused\n')
    python('-c', refuse + BUILD, 'build_editable', tree.parent, cwd=tree)
    mim = tree / 'qbheat_mm' / '.mim'
    assert {p.relative_to(mim).as_posix()
            for p in mim.rglob('*') if p.is_file()} == shipped(tree)


def test_the_package_is_found_from_the_folder_of_its_clone(tree):
    """Where the clone itself could be taken for a namespace package."""
    environment = tree.parent / 'environment'
    venv.create(environment, with_pip=False)
    site = next(environment.glob('lib/python*/site-packages'))
    (site / 'borrowed.pth').write_text(sysconfig.get_path('purelib') + '\n')
    own = environment / 'bin' / 'python'
    python('-m', 'pip', '-q', '--python', own, 'install', '--no-deps',
           '--no-build-isolation', '--no-index', '-e', tree, cwd=tree,
           PYTHONPATH='')
    find = ('import importlib.util as util\n'
            'print(util.find_spec("qbheat_mm").origin)')
    found = python('-c', find, cwd=tree.parent, executable=own, PYTHONPATH='')
    assert found == str(tree / 'qbheat_mm' / '__init__.py')


def test_a_missing_entry_stops_the_build(tree):
    (tree / 'model-index.yml').unlink()
    with pytest.raises(AssertionError, match='model-index.yml'):
        build('wheel', tree)


def test_importing_needs_neither_mmdet_nor_operators(tmp_path):
    code = ('import sys, qbheat_mm\n'
            'print([m for m in sys.modules if m.split(".")[0] == "mmdet" '
            'or m.startswith(("mmcv.ops", "mmcv._ext"))])')
    assert python('-c', code, cwd=tmp_path) == '[]'


def test_a_broken_toolbox_is_named_with_the_way_out(tmp_path):
    (tmp_path / 'mmpretrain.py').write_text('raise OSError("broken")\n')
    result = subprocess.run([sys.executable, '-c', 'import qbheat_mm'],
                            cwd=tmp_path, capture_output=True, text=True)
    last = result.stderr.strip().splitlines()[-1]
    assert result.returncode != 0 and 'OSError: broken' in last
    assert 'mmpretrain' in last and 'python -m qbheat_mm.check_env' in last


@pytest.fixture
def release():
    spec = importlib.util.spec_from_file_location(
        'release_build', ROOT / 'tools/release/build.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_changelog_and_citation_have_this_version(release):
    text = (ROOT / 'qbheat_mm/version.py').read_text()
    release.check_notes(re.search("'(.+)'", text)[1])
    with pytest.raises(SystemExit, match=r'no section \[9\.9\.9\]'):
        release.check_notes('9.9.9')
