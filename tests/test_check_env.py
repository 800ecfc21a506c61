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
    fits,
    judge,
    main,
    probe,
    report,
)

ROOT = Path(__file__).resolve().parents[1]
BUILD = ' -m qbheat_mm.build_mmcv'
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
         file='/p/qbheat_mm/__init__.py'):
    imports = {name: dict(error='') for name in IMPORTS}
    imports['torch'].update(cuda='13.0', gpu=gpu)
    imports['mmcv.ops'].update(cuda=ops)
    imports['qbheat_mm'].update(file=file)
    for name, error in dict(errors).items():
        imports[name] = dict(error=error)
    return judge(dict(dists), imports)


def without(dists, *names):
    return {k: v for k, v in dists.items() if k not in names}


def faults(*args, **kwargs):
    return {row.part: row for row in rows(*args, **kwargs) if row.problem}


@pytest.mark.parametrize('dists,errors', [
    (UPSTREAM, {}), (ONEDL, {}), (LITE, NO_OPS)])
def test_working_environments_have_no_faults(dists, errors):
    assert faults(dists, errors) == {}


def test_missing_packages_are_named_and_one_way_out_is_printed():
    errors = dict.fromkeys(IMPORTS, "ModuleNotFoundError: No module named 'x'")
    found = faults({}, errors)
    assert set(found) == {*UPSTREAM, 'mmcv.ops'}
    assert all(row.fix for row in found.values())
    assert report(rows({}, errors)).endswith('docs/installation.md')
    dists = without(UPSTREAM, 'mmdet', 'openmim')
    text = report(rows(dists, {'mmdet': NO_OPS['mmdet']}))
    assert text.endswith(faults(dists)['mmdet'].fix)


@pytest.mark.parametrize('name,version,command', [
    ('mmcv', '2.2.0', BUILD), ('mmcv', '2.0.1', BUILD),
    ('torch', '2.5.1', 'torch>=2.6'), ('mmdet', '2.28.2', 'mmdet>=3.3.0,<4'),
    ('mmengine', '1.0.0', 'mmengine>=0.10.7,<1')])
def test_versions_out_of_bounds_are_replaced(name, version, command):
    found = faults({**UPSTREAM, name: version})
    assert list(found) == [name] and command in found[name].fix


def test_missing_operators_are_built():
    found = faults(errors={'mmcv.ops': NO_OPS['mmcv.ops']})
    assert found['mmcv.ops'].fix.endswith(BUILD)
    found = faults(ONEDL, {'mmcv.ops': NO_OPS['mmcv.ops']})
    assert found['mmcv.ops'].fix.endswith(f'{BUILD} --family onedl')


def test_cpu_operators_beside_a_gpu_are_a_fault():
    assert 'FORCE_CUDA=1' in faults(gpu='H200')['mmcv.ops'].fix
    assert faults(gpu='H200', ops='13.0') == {}


@pytest.mark.parametrize('dists', [UPSTREAM, {'mmcv-lite': '2.1.0'}])
def test_two_families_are_both_removed(dists):
    removed = faults({**dists, **ONEDL})['families'].fix.split()
    assert {'onedl-mmcv', 'onedl-mmdetection', *dists.keys() - BASE} <= {
        *removed}


@pytest.mark.parametrize('there', ['mmdet', 'mmcv'])
def test_mmcv_lite_is_a_fault_where_operators_are_needed(there):
    assert 'NO' not in report(rows(LITE, NO_OPS))
    found = faults({**LITE, there: UPSTREAM[there]}, NO_OPS)
    assert found['mmcv'].fix.endswith(BUILD)


@pytest.mark.parametrize('name,error,fix', [
    ('torchvision', 'RuntimeError: operator torchvision::nms does not exist',
     'torch==2.13.0 torchvision'),
    ('mmcv', 'ImportError: libGL.so.1: cannot open shared object file',
     'opencv-python-headless'),
    ('mim', "ModuleNotFoundError: No module named 'pkg_resources'",
     "'setuptools<81'")])
def test_known_import_errors_have_their_own_command(name, error, fix):
    dist = (COMMON.get(name) or FAMILIES['upstream'][name])[0]
    assert faults(errors={name: error})[dist].fix.endswith(fix)


def test_an_import_that_finds_a_folder_is_reported():
    assert list(faults(file='')) == ['qbheat_mm']


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
    assert found['crashes']['error'] and found['no_such_module']['error']


def read_pins(name, separator):
    text = (ROOT / 'requirements' / name).read_text()
    return dict(re.findall(rf'^([\w-]+){separator}([^\s#;]+)', text, re.M))


def test_the_lock_lies_within_the_bounds():
    pins = read_pins('lock.txt', '==')
    for dist, low, high in {**COMMON, **FAMILIES['upstream']}.values():
        assert dist == 'mmcv' or fits(pins[dist], low, high), dist
    assert fits(pins['setuptools'], '40', '81')


@pytest.mark.parametrize('family,extra', [
    ('upstream', 'openmmlab.txt'), ('onedl', 'onedl.txt'),
    ('lite', 'pretrain.txt')])
def test_the_extras_have_the_same_bounds(family, extra):
    asked = read_pins(extra, '>=')
    for name, bounds in {**COMMON, **FAMILIES[family]}.items():
        if name == 'numpy' or name == 'mmcv' and family != 'lite':
            continue
        dist, low, high = bounds
        assert asked[dist] == low + (f',<{high}' if high else ''), dist


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
