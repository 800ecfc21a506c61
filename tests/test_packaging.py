# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What an installation contains, and what an import finds."""
import re
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from .helpers.packages import BUILD, build, copy_tree, python

ROOT = Path(__file__).resolve().parents[1]
# Tools that only work in a clone.
NOT_SHIPPED = ('tools/env/', )


def shipped(root):
    """Paths below ``.mim`` that an installation must contain."""
    names = {'model-index.yml'}
    for folder in ('configs', 'tools'):
        for path in (root / folder).rglob('*'):
            name = path.relative_to(root).as_posix()
            if path.is_file() and '__pycache__' not in path.parts and (
                    not name.startswith(NOT_SHIPPED)):
                names.add(name)
    return names


def mim_of(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    prefix = 'qbheat_mm/.mim/'
    return {n[len(prefix):] for n in names if n.startswith(prefix)}


@pytest.fixture
def tree(tmp_path):
    return copy_tree(tmp_path)


def test_a_wheel_has_configs_and_tools_and_nothing_else(tree):
    (tree / 'configs' / 'gone.py').write_text('')
    build('wheel', tree)
    (tree / 'configs' / 'gone.py').unlink()
    wheel = build('wheel', tree)  # nothing is left of the earlier build
    expected = shipped(tree)
    assert {'tools/train.py', 'model-index.yml'} < expected
    assert mim_of(wheel) == expected
    names = zipfile.ZipFile(wheel).namelist()
    assert 'qbheat_mm/report/templates/story.html' in names
    # Neither projects nor tests, and one name to import.
    assert {name.split('/')[0].split('-')[0] for name in names} == {
        'qbheat_mm'}


def test_a_wheel_can_be_built_from_the_sdist(tree):
    build('editable', tree)  # its links must not end up in the sdist
    with tarfile.open(build('sdist', tree)) as archive:
        names = archive.getnames()
        archive.extractall(tree.parent, filter='data')
    assert not [n for n in names if '.mim' in n or '__pycache__' in n]
    unpacked = tree.parent / names[0].split('/')[0]
    assert mim_of(build('wheel', unpacked)) == shipped(tree)


def test_an_editable_install_links_and_wins_over_its_folder(tree):
    """From the parent folder, the clone looks like a namespace package."""
    own = tree.parent / 'environment' / 'bin' / 'python'
    venv.create(tree.parent / 'environment', with_pip=False)
    site = next(tree.parent.glob('environment/lib/python*/site-packages'))
    (site / 'borrowed.pth').write_text(sysconfig.get_path('purelib') + '\n')
    python('-m', 'pip', '-q', '--python', own, 'install', '--no-deps',
           '--no-build-isolation', '--no-index', '-e', tree, cwd=tree,
           PYTHONPATH='')
    find = ('import importlib.util as util\n'
            'print(util.find_spec("qbheat_mm").origin)')
    found = python('-c', find, cwd=tree.parent, executable=own, PYTHONPATH='')
    assert found == str(tree / 'qbheat_mm' / '__init__.py')
    mim = tree / 'qbheat_mm' / '.mim'
    assert {path.name: path.resolve() for path in mim.iterdir()} == {
        name: tree / name for name in ('configs', 'tools', 'model-index.yml')}
    assert not any(path.readlink().is_absolute() for path in mim.iterdir())


def test_an_editable_install_copies_where_links_are_refused(tree):
    refuse = ('import pathlib\n'
              'def refused(*_): raise OSError("no links here")\n'
              'pathlib.Path.symlink_to = refused\n')
    python('-c', refuse + BUILD, 'build_editable', tree.parent, cwd=tree)
    mim = tree / 'qbheat_mm' / '.mim'
    assert {p.relative_to(mim).as_posix()
            for p in mim.rglob('*') if p.is_file()} == shipped(tree)


def test_a_missing_entry_stops_the_build(tree):
    (tree / 'model-index.yml').unlink()
    with pytest.raises(AssertionError, match='model-index.yml'):
        build('wheel', tree)


def test_each_import_is_a_requirement():
    """Without mmdet, which brings SciPy, importing the apis failed."""
    required = re.findall(r'^[\w-]+', (
        ROOT / 'requirements/runtime.txt').read_text().replace(
            'scikit-learn', 'sklearn'), re.M)
    toolboxes = {'torch', 'torchvision', 'mmengine', 'mmcv', 'mmpretrain'}
    theirs = {'cv2', 'matplotlib', 'modelindex', 'PIL', 'yaml'}
    where_needed = {'mmdet', 'onnxscript'}
    found = set()
    for file in (ROOT / 'qbheat_mm').rglob('*.py'):
        if '.mim' not in file.parts:
            found.update(re.findall(r'^(?:from|import) (\w+)',
                                    file.read_text(), re.M))
    assert found - sys.stdlib_module_names <= {
        *required, *toolboxes, *theirs, *where_needed}


def test_changelog_and_citation_have_this_version():
    text = (ROOT / 'qbheat_mm/version.py').read_text()
    version = re.search("'(.+)'", text)[1]
    assert re.search(rf'^## \[{re.escape(version)}\] - \d',
                     (ROOT / 'CHANGELOG.md').read_text(), re.M)
    assert f'version: {version}\n' in (ROOT / 'CITATION.cff').read_text()
