# Copyright (c) QB-Heat MM authors. All rights reserved.
"""``python -m qbheat_mm.check_env`` on made-up environments and this one."""
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qbheat_mm.check_env import (
    COMMON,
    FAMILIES,
    IMPORTS,
    MIN_PYTHON,
    Commands,
    Facts,
    fits,
    judge,
    main,
    probe,
    report,
)

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = Commands('py', has_pip=True)
BUILD = 'py -m qbheat_mm.build_mmcv'
BASE = dict(numpy='2.4.6', torch='2.13.0', torchvision='0.28.0',
            qbheat_mm='0.1.0')
UPSTREAM = dict(BASE, mmengine='0.10.7', mmcv='2.1.0', mmdet='3.3.0',
                mmpretrain='1.2.0', openmim='0.3.9')
ONEDL = {**BASE, 'onedl-mmengine': '0.10.12', 'onedl-mmcv': '2.3.6',
         'onedl-mmdetection': '3.5.1', 'onedl-mmpretrain': '1.3.6',
         'onedl-mim': '0.5.1'}
LITE = {**BASE, 'mmengine': '0.10.7', 'mmcv-lite': '2.1.0',
        'mmpretrain': '1.2.0'}
NO_OPS = {'mmcv.ops': "ModuleNotFoundError: No module named 'mmcv._ext'",
          'mmdet': "ModuleNotFoundError: No module named 'mmdet'"}


def rows(dists=UPSTREAM, errors=(), gpu='', ops='not available',
         commands=COMMANDS, file='/p/qbheat_mm/__init__.py', **facts):
    imports = {name: dict(error='') for name in IMPORTS}
    imports['torch'].update(cuda='13.0', gpu=gpu)
    imports['mmcv.ops'].update(cuda=ops)
    imports['qbheat_mm'].update(file=file)
    for name, error in dict(errors).items():
        imports[name] = dict(error=error)
    return judge(Facts('3.11.7', dict(dists), imports, **facts), commands)


def faults(*args, **kwargs):
    return {row.part: row for row in rows(*args, **kwargs) if row.problem}


def without(dists, *names):
    return {k: v for k, v in dists.items() if k not in names}


@pytest.mark.parametrize('dists,errors', [
    (UPSTREAM, {}), (ONEDL, {}), (LITE, NO_OPS)])
def test_working_environments_have_no_faults(dists, errors):
    assert faults(dists, errors, torchvision_torch='2.13.0') == {}


def test_every_missing_package_gets_a_command():
    errors = dict.fromkeys(IMPORTS, "ModuleNotFoundError: No module named 'x'")
    found = faults({}, errors)
    assert set(found) == {*UPSTREAM, 'mmcv.ops (compiled)'}
    assert all(row.fix for part, row in found.items()
               if part != 'mmcv.ops (compiled)')
    # torchvision must come from where torch comes from
    assert found['torch'].fix == found['torchvision'].fix


@pytest.mark.parametrize('name,version,wanted', [
    ('mmcv', '2.2.0', BUILD), ('mmcv', '2.0.1', BUILD),
    ('torch', '2.5.1', 'torch>=2.6'), ('mmdet', '2.28.2', 'mmdet>=3.3.0,<4'),
    ('mmengine', '1.0.0', 'mmengine>=0.10.7,<1')])
def test_versions_out_of_bounds_are_replaced(name, version, wanted):
    found = faults({**UPSTREAM, name: version})
    assert list(found) == [name] and wanted in found[name].fix


def test_consequences_of_another_fault_get_no_command():
    error = 'AssertionError: MMCV==2.2.0 is used but incompatible.'
    found = faults({**UPSTREAM, 'mmcv': '2.2.0'}, dict(mmdet=error))
    assert found['mmcv'].fix and not found['mmdet'].fix


def test_missing_operators_are_built():
    errors = {'mmcv.ops': NO_OPS['mmcv.ops'], 'mmdet': NO_OPS['mmcv.ops']}
    found = faults(errors=errors)
    assert found['mmcv.ops (compiled)'].fix == BUILD
    assert not found['mmdet'].fix
    assert faults(ONEDL, errors)['mmcv.ops (compiled)'].fix == (
        f'{BUILD} --family onedl')


def test_cpu_operators_beside_a_gpu_are_a_fault():
    assert 'FORCE_CUDA=1' in faults(gpu='H200')['mmcv.ops (compiled)'].fix
    assert faults(gpu='H200', ops='13.0') == {}


@pytest.mark.parametrize('dists', [UPSTREAM, {'mmcv-lite': '2.1.0'}])
def test_two_families_are_both_uninstalled(dists):
    remove, install, build = faults({**dists, **ONEDL})['families'].fix.split(
        ' && ')
    assert {'onedl-mmcv', 'onedl-mmdetection', *without(dists, *BASE)} <= set(
        remove.split())
    assert 'mmdet>=3.3.0' in install and 'onedl' not in install
    assert build == BUILD


def test_mmcv_lite_says_what_it_is_for():
    text = report(rows(LITE, NO_OPS))
    assert 'NO' not in text and 'pre-training' in text and BUILD in text
    fix = faults({**LITE, 'mmcv-lite': '2.2.0'}, NO_OPS)['mmcv-lite'].fix
    assert '--no-build-isolation' in fix and "'setuptools<81'" in fix


@pytest.mark.parametrize('there', ['mmdet', 'mmcv'])
def test_mmcv_lite_is_a_fault_where_operators_are_needed(there):
    found = faults({**LITE, there: UPSTREAM[there]}, NO_OPS)
    assert found['mmcv'].fix == BUILD
    assert 'mmcv-lite is in its place' in found['mmcv'].problem


@pytest.mark.parametrize('demanded,error,pin', [
    ('2.11.0', '', 'torchvision'),
    ('2.13.0', 'RuntimeError: operator torchvision::nms does not exist',
     'torchvision==0.28.0')])
def test_torchvision_of_another_torch_is_reinstalled(demanded, error, pin):
    found = faults(errors=dict(torchvision=error), torchvision_torch=demanded)
    assert found['torchvision'].fix.endswith(f'torch==2.13.0 {pin}')


@pytest.mark.parametrize('name,error,fix', [
    ('mmcv', 'ImportError: libGL.so.1: cannot open shared object file',
     'opencv-python-headless'),
    ('mim', "ModuleNotFoundError: No module named 'pkg_resources'",
     "py -m pip install 'setuptools<81'")])
def test_known_import_errors_have_their_own_command(name, error, fix):
    dist = FAMILIES['upstream'][name][0]
    assert fix in faults(errors={name: error})[dist].fix


def test_without_pip_the_commands_use_uv():
    found = faults(without(UPSTREAM, 'mmdet'),
                   commands=Commands('py', has_pip=False))
    assert found['mmdet'].fix == (
        "uv pip install --python py 'mmdet>=3.3.0,<4.0.0'")


def test_an_import_that_finds_something_else_is_reported():
    found = faults(file='', folder='/p/qbheat_mm')
    assert 'instead of the package' in found['qbheat_mm'].problem
    row, = [row for row in rows(folder='/other/qbheat_mm')
            if row.part == 'qbheat_mm']
    assert '/other/qbheat_mm is installed' in row.note


@pytest.mark.parametrize('version,inside', [
    ('2.1.0', True), ('2.1.0+cu130', True), ('2.1.9', True),
    ('2.0.9', False), ('2.2.0rc1', False), ('2.10.0', False)])
def test_versions_are_compared_as_numbers(version, inside):
    assert fits(version, '2.1.0', '2.2.0') is inside


def test_a_crashing_import_is_reported(tmp_path, monkeypatch):
    (tmp_path / 'crashes.py').write_text('import os; os.abort()\n')
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    found = probe(('json', 'crashes', 'no_such_module', 're'))
    assert found['json']['error'] == found['re']['error'] == ''
    assert 'status -6' in found['crashes']['error']
    assert 'no_such_module' in found['no_such_module']['error']


def read_pins(name, separator):
    text = (ROOT / 'requirements' / name).read_text()
    return dict(re.findall(rf'^([\w-]+){separator}([^\s#]+)', text, re.M))


def test_the_lock_lies_within_the_bounds():
    pins = read_pins('lock.txt', '==')
    for dist, low, high in {**COMMON, **FAMILIES['upstream']}.values():
        assert fits(pins[dist], low, high), dist
    assert fits(pins['setuptools'], '40', '81')


@pytest.mark.parametrize('family,extra', [
    ('upstream', 'openmmlab.txt'), ('onedl', 'onedl.txt'),
    ('lite', 'pretrain.txt')])
def test_the_extras_have_the_same_bounds(family, extra):
    asked = read_pins(extra, '>=')
    bounds = without({**COMMON, **FAMILIES[family]}, 'numpy',
                     *(() if family == 'lite' else ('mmcv', )))
    for dist, low, high in bounds.values():
        assert asked[dist] == low + (f',<{high}' if high else ''), dist


def test_every_page_names_the_same_oldest_versions():
    readme = (ROOT / 'README.md').read_text()
    assert f'Python ≥ {MIN_PYTHON}' in readme
    assert set(re.findall(r'torch ≥ (\d+\.\d+)', readme)) == {
        COMMON['torch'][1]}
    setup = (ROOT / 'setup.py').read_text()
    assert f"python_requires='>={MIN_PYTHON}'" in setup
    assert read_pins('runtime.txt', '>=')['numpy'] == COMMON['numpy'][1]
    oldest = (ROOT / 'docs' / 'compatibility.md').read_text()
    for name in ('torch', 'torchvision', 'numpy'):
        assert re.search(rf'\b{name} {COMMON[name][1]}\.', oldest), name


@pytest.mark.parametrize('module', ['check_env', 'build_mmcv'])
def test_it_needs_the_standard_library_only(module):
    result = subprocess.run(
        [sys.executable, '-I', '-S', '-c',
         f'import sys; sys.path.insert(0, {str(ROOT)!r})\n'
         f'sys.argv[0] = "-m"; sys.orig_argv.append("qbheat_mm.{module}")\n'
         f'import qbheat_mm.{module}'], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_this_environment_works(capsys):
    assert main() == 0, capsys.readouterr().out
    assert re.search(r'^(onedl-)?mmcv(-lite)? +\S+ +ok$',
                     capsys.readouterr().out, re.M)
