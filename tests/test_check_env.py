# Copyright (c) QB-Heat MM authors. All rights reserved.
"""``python -m qbheat_mm.check_env`` on made-up environments and this one."""
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qbheat_mm import check_env
from qbheat_mm.check_env import (
    IMPORTS,
    find_problems,
    fits,
    main,
    parts_of,
    probe,
    report,
)

ROOT = Path(__file__).resolve().parents[1]
BUILD = ' -m qbheat_mm.build_mmcv'
BASE = dict(numpy='2.4.6', setuptools='80.10.2', torch='2.13.0',
            torchvision='0.28.0', qbheat_mm='0.1.0')
UPSTREAM = dict(BASE, mmengine='0.10.7', mmcv='2.1.0', mmdet='3.3.0',
                mmpretrain='1.2.0', openmim='0.3.9')
ONEDL = {**BASE, 'onedl-mmengine': '0.10.12', 'onedl-mmcv': '2.3.6',
         'onedl-mmdetection': '3.5.1', 'onedl-mmpretrain': '1.3.6',
         'onedl-mim': '0.5.1'}
LITE = {**BASE, 'mmengine': '0.10.7', 'mmcv-lite': '2.1.0',
        'mmpretrain': '1.2.0'}
NO_OPS = {'mmcv.ops': "ModuleNotFoundError: No module named 'mmcv._ext'",
          'mmdet': "ModuleNotFoundError: No module named 'mmdet'"}


def problems(dists=UPSTREAM, errors=(), gpu='', ops='not available'):
    imports = {name: dict(error='', cuda=ops) for name in IMPORTS}
    imports['torch'].update(gpu=gpu)
    for name, error in dict(errors).items():
        imports[name]['error'] = error
    return find_problems(dists, imports)


def fixes(*args, **kwargs):
    return {each.part: each.fix for each in problems(*args, **kwargs)}


@pytest.mark.parametrize('dists,errors', [
    (UPSTREAM, {}), ({**UPSTREAM, 'mmcv': '2.1.9+cu130'}, {}), (ONEDL, {}),
    (LITE, NO_OPS)])
def test_working_environments_have_no_problems(dists, errors):
    assert not problems(dists, errors)


def test_missing_packages_are_named_with_one_command():
    errors = dict.fromkeys(IMPORTS, "ModuleNotFoundError: No module named 'x'")
    found = problems({}, errors)
    assert {each.part for each in found} == {*UPSTREAM, 'mmcv.ops'}
    assert all(each.fix for each in found)
    assert report({}, found).endswith('docs/installation.md')
    dists = UPSTREAM.copy()
    del dists['mmdet'], dists['openmim']
    assert report(dists, problems(dists)).endswith(fixes(dists)['mmdet'])
    assert fixes(dists)['mmdet'].endswith("install 'mmdet>=3.3.0,<4.0.0'")


@pytest.mark.parametrize('name,version,command', [
    ('mmcv', '2.10.0', BUILD), ('mmcv', '2.2.0rc1', BUILD),
    ('mmcv', '2.0.1', BUILD),
    ('torch', '2.5.1', 'torch>=2.6'), ('mmdet', '2.28.2', 'mmdet>=3.3.0,<4'),
    ('mmengine', '1.0.0', 'mmengine>=0.10.7,<1')])
def test_unsupported_versions_are_replaced(name, version, command):
    found = fixes({**UPSTREAM, name: version})
    assert list(found) == [name] and command in found[name]


def test_missing_operators_are_built():
    errors = {'mmcv.ops': NO_OPS['mmcv.ops']}
    assert fixes(errors=errors)['mmcv.ops'].endswith(BUILD)
    assert fixes(ONEDL, errors)['mmcv.ops'].endswith(
        f'{BUILD} --family onedl')


def test_cpu_operators_on_a_gpu_machine_are_a_problem():
    assert 'FORCE_CUDA=1' in fixes(gpu='H200')['mmcv.ops']
    assert not problems(gpu='H200', ops='13.0')


@pytest.mark.parametrize('dists', [UPSTREAM, {'mmcv-lite': '2.1.0'}])
def test_two_families_are_both_removed(dists):
    removed = fixes({**dists, **ONEDL})['families'].split()
    assert {'onedl-mmcv', 'onedl-mmdetection', *dists.keys() - BASE} <= {
        *removed}


@pytest.mark.parametrize('there', ['mmdet', 'mmcv'])
def test_mmcv_lite_is_a_problem_where_operators_are_needed(there):
    assert fixes({**LITE, there: UPSTREAM[there]}, NO_OPS)['mmcv'].endswith(
        BUILD)


@pytest.mark.parametrize('name,error,fix', [
    ('torchvision', 'RuntimeError: operator torchvision::nms does not exist',
     "'torch==2.13.0' torchvision"),
    ('mmcv', 'ImportError: libGL.so.1: cannot open shared object file',
     'opencv-python-headless'),
    ('mim', "ModuleNotFoundError: No module named 'pkg_resources'",
     "'setuptools<81'"),
    ('mmdet', 'SyntaxError: invalid syntax',
     'install --force-reinstall --no-deps mmdet==3.3.0'),
    ('mmpretrain', "ModuleNotFoundError: No module named 'rich'",
     'install mmpretrain==1.2.0'),
    ('qbheat_mm', "ModuleNotFoundError: No module named 'joblib'",
     f"-e '{ROOT}[openmmlab]'"),
    ('training', 'OSError: No space left on device',
     f"-e '{ROOT}[openmmlab]'")])
def test_failing_imports_have_their_own_command(name, error, fix):
    dist = parts_of('upstream').get(name, [name])[0]
    assert fixes(errors={name: error})[dist].endswith(fix)


def test_a_crashing_import_is_reported(tmp_path, monkeypatch):
    (tmp_path / 'crashes.py').write_text('import os; os.abort()\n')
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    found = probe(('json', 'no_such_module', 'crashes', 're'))
    assert found['json']['error'] == found['re']['error'] == ''
    assert 'ModuleNotFoundError' in found['no_such_module']['error']
    assert 'crashes Python' in found['crashes']['error']


def test_training_is_not_blamed_for_what_is_broken_before():
    assert 'training' not in fixes(errors=dict(mim='broken', training='too'))


@pytest.mark.mmdet
def test_a_problem_ends_with_its_command(monkeypatch, capsys):
    monkeypatch.setattr(check_env, 'probe', lambda names: {name: dict(
        error='ImportError: undefined symbol' if name == 'mmcv.ops' else '',
        cuda='13.0') for name in names})
    assert main() == 1
    assert capsys.readouterr().out.strip().endswith(BUILD)


def read_pins(name, separator):
    text = (ROOT / 'requirements' / name).read_text()
    return dict(re.findall(rf'^([\w-]+){separator}([^\s#;]+)', text, re.M))


def test_the_lock_lies_within_the_bounds():
    pins = read_pins('lock.txt', '==')
    for dist, supported in parts_of('upstream').values():
        assert dist in ('mmcv', 'qbheat_mm') or fits(
            pins[dist], supported), dist


@pytest.mark.parametrize('family,extra', [
    ('upstream', 'openmmlab.txt'), ('onedl', 'onedl.txt'),
    ('lite', 'pretrain.txt')])
def test_the_extras_have_the_same_bounds(family, extra):
    asked = read_pins(extra, '(?=>=)')
    for name, (dist, supported) in parts_of(family).items():
        if name not in ('numpy', 'qbheat_mm') and (
                name != 'mmcv' or family == 'lite'):
            assert asked[dist] == supported, dist


@pytest.mark.parametrize('module', ['check_env', 'build_mmcv'])
def test_it_needs_only_the_standard_library(module):
    result = subprocess.run(
        [sys.executable, '-I', '-S', '-c',
         f'import sys; sys.path.insert(0, {str(ROOT)!r})\n'
         f'sys.argv[0] = "-m"; sys.orig_argv.append("qbheat_mm.{module}")\n'
         f'import qbheat_mm.{module}'], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_this_environment_is_supported(capsys, monkeypatch):
    """`make env` also imports everything, which takes a while."""
    monkeypatch.setattr(check_env, 'probe', lambda names: {
        name: dict(error='', cuda='13.0') for name in names})
    assert main() == 0, capsys.readouterr().out
    assert re.search(r'^(onedl-)?mmcv(-lite)? +\S+ +ok$',
                     capsys.readouterr().out, re.M)
