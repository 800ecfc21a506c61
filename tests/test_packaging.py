# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What an installation carries, and what importing the package drags in."""
import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ('qbheat_mm', 'configs', 'tools', 'requirements', 'setup.py',
           'MANIFEST.in', 'model-index.yml', 'LICENSE')
BUILD = ('import sys, setuptools.build_meta as backend; '
         'print(getattr(backend, sys.argv[1])(sys.argv[2]))')


def python(*args, cwd):
    """Run Python; return the last line that it prints."""
    result = subprocess.run([sys.executable, *map(str, args)], cwd=cwd,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.strip().splitlines()[-1]


#: What serves the project's own folder alone.
OUR_OWN = ('tools/docs/', 'tools/release/', 'tools/env/make_env.py')


def shipped(root):
    """Paths below ``.mim`` that an installation must hold."""
    return {
        path.relative_to(root).as_posix()
        for name in ('configs', 'tools') for path in (root / name).rglob('*')
        if path.is_file() and '__pycache__' not in path.parts
        and not path.relative_to(root).as_posix().startswith(OUR_OWN)
    } | {'model-index.yml'}


def mim_of(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    prefix = 'qbheat_mm/.mim/'
    return {n[len(prefix):] for n in names if n.startswith(prefix)}


@pytest.fixture
def tree(tmp_path):
    """A source tree of one's own, with the litter that a used one has."""
    root = tmp_path / 'tree'
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


def test_a_wheel_copies_configs_and_tools(tree):
    expected = shipped(tree)
    assert any(n.startswith('configs/') for n in expected)
    assert 'tools/train.py' in expected
    wheel = build('wheel', tree)
    assert mim_of(wheel) == expected
    assert ('qbheat_mm/analysis/templates/story.html'
            in zipfile.ZipFile(wheel).namelist())


def test_a_wheel_holds_nothing_of_an_earlier_build(tree):
    gone = tree / 'configs' / 'gone.py'
    gone.write_text('')
    build('wheel', tree)
    gone.unlink()
    assert mim_of(build('wheel', tree)) == shipped(tree)


def test_an_editable_install_links_them(tree):
    for _ in range(2):  # again over what is there
        wheel = build('editable', tree)
    assert mim_of(wheel) == set()
    mim = tree / 'qbheat_mm' / '.mim'
    for name in ('configs', 'tools', 'model-index.yml'):
        assert (mim / name).is_symlink()
        assert not (mim / name).readlink().is_absolute()
        assert (mim / name).resolve() == tree / name
    assert {p.name for p in mim.iterdir()} == {
        'configs', 'tools', 'model-index.yml'}


def test_an_editable_install_copies_where_links_are_refused(tree):
    refuse = ('import pathlib\n'
              'def refused(*_): raise OSError("no links here")\n'
              'pathlib.Path.symlink_to = refused\n')
    out = tree.parent / 'editable'
    out.mkdir()
    python('-c', refuse + BUILD, 'build_editable', out, cwd=tree)
    mim = tree / 'qbheat_mm' / '.mim'
    assert not (mim / 'configs').is_symlink()
    assert {p.relative_to(mim).as_posix()
            for p in mim.rglob('*') if p.is_file()} == shipped(tree)


def test_a_wheel_after_an_editable_install_is_no_different(tree):
    build('editable', tree)
    assert mim_of(build('wheel', tree)) == shipped(tree)


def test_a_wheel_can_be_made_from_the_sdist(tree):
    build('editable', tree)  # its links must not travel
    with tarfile.open(build('sdist', tree)) as archive:
        names = archive.getnames()
        archive.extractall(tree.parent, filter='data')
    assert not [n for n in names if '.mim' in n or '__pycache__' in n]
    unpacked = tree.parent / names[0].split('/')[0]
    assert mim_of(build('wheel', unpacked)) == shipped(tree)


def test_a_missing_entry_stops_the_build(tree):
    (tree / 'model-index.yml').unlink()
    with pytest.raises(AssertionError, match='model-index.yml'):
        build('wheel', tree)


def test_this_installation_has_its_configs_and_tools():
    import qbheat_mm
    mim = Path(qbheat_mm.__file__).parent / '.mim'
    assert (mim / 'tools' / 'train.py').is_file()
    assert list((mim / 'configs').rglob('*.py'))


def test_importing_the_package_needs_neither_mmdet_nor_operators(tmp_path):
    code = ('import sys, qbheat_mm\n'
            'print([m for m in sys.modules if m.split(".")[0] == "mmdet" '
            'or m.startswith(("mmcv.ops", "mmcv._ext"))])')
    assert python('-c', code, cwd=tmp_path) == '[]'


def test_a_missing_toolbox_is_reported_in_one_line_with_the_way_out(tmp_path):
    (tmp_path / 'mmpretrain.py').write_text('raise OSError("broken")\n')
    result = subprocess.run([sys.executable, '-c', 'import qbheat_mm'],
                            cwd=tmp_path, capture_output=True, text=True)
    last = result.stderr.strip().splitlines()[-1]
    assert result.returncode != 0
    assert 'mmpretrain' in last and 'OSError: broken' in last
    assert 'python -m qbheat_mm.check_env' in last


def test_registering_twice_is_harmless(tmp_path):
    code = ('import importlib, qbheat_mm\n'
            'from mmengine.registry import MODELS\n'
            'before = set(MODELS.module_dict)\n'
            'importlib.import_module("qbheat_mm")\n'
            'from mmengine.utils import import_modules_from_strings\n'
            'import_modules_from_strings(["qbheat_mm", "qbheat_mm.models"])\n'
            'print("MobileFormer" in before, '
            'set(MODELS.module_dict) == before)')
    assert python('-c', code, cwd=tmp_path) == 'True True'


# Releases


@pytest.fixture(scope='module')
def release():
    spec = importlib.util.spec_from_file_location(
        'release_build', ROOT / 'tools/release/build.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_change_log_and_the_citation_are_of_this_version(release):
    text = (ROOT / 'qbheat_mm/version.py').read_text()
    release.check_notes(re.search("'(.+)'", text)[1])
    with pytest.raises(SystemExit, match=r'no section \[9\.9\.9\]'):
        release.check_notes('9.9.9')


def test_the_smoke_test_refuses_what_is_not_installed(tmp_path):
    result = subprocess.run(
        [sys.executable, ROOT / 'tools/release/smoke.py', '9.9.9'],
        cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode != 0
    assert result.stderr.strip().endswith(f'AssertionError: {version()}')


def version():
    import qbheat_mm
    return qbheat_mm.__version__
