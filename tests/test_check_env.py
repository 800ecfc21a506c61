# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The verdicts of ``python -m qbheat_mm.check_env`` on made-up environments.

Only the last tests look at the real one.
"""
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qbheat_mm.check_env import (
    COMMON,
    FAMILIES,
    IMPORTS,
    Commands,
    Facts,
    fits,
    judge,
    probe,
    report,
)

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = Commands('py', has_pip=True)
UPSTREAM = dict(
    numpy='2.4.6', torch='2.13.0', torchvision='0.28.0', mmengine='0.10.7',
    mmcv='2.1.0', mmdet='3.3.0', mmpretrain='1.2.0', openmim='0.3.9',
    qbheat_mm='0.1.0')
ONEDL = {
    'numpy': '2.4.6', 'torch': '2.13.0', 'torchvision': '0.28.0',
    'onedl-mmengine': '0.10.12', 'onedl-mmcv': '2.3.6',
    'onedl-mmdetection': '3.5.1', 'onedl-mmpretrain': '1.3.6',
    'onedl-mim': '0.5.1', 'qbheat_mm': '0.1.0'}


def verdict(dists=UPSTREAM, errors=(), gpu='', ops='not available',
            commands=COMMANDS, **facts):
    """Judge an environment; return the rows at fault by their part."""
    imports = {name: dict(error='') for name in IMPORTS}
    imports['torch'].update(cuda='13.0', gpu=gpu)
    imports['mmcv.ops'].update(cuda=ops)
    for name, error in dict(errors).items():
        imports[name] = dict(error=error)
    rows = judge(Facts('3.11.7', dict(dists), imports, **facts), commands)
    return {row.part: row for row in rows if row.problem}


def without(dists, *names):
    return {k: v for k, v in dists.items() if k not in names}


@pytest.mark.parametrize('dists', [UPSTREAM, ONEDL])
def test_a_fitting_environment_has_no_fault(dists):
    assert verdict(dists, torchvision_torch='2.13.0') == {}


def test_nothing_installed_names_every_part_and_a_command_for_each():
    errors = dict.fromkeys(IMPORTS, "ModuleNotFoundError: No module named 'x'")
    faults = verdict({}, errors)
    assert set(faults) == {
        *UPSTREAM, 'mmcv.ops (compiled)'}
    assert all(row.fix for row in faults.values())
    # torchvision must come from where torch comes from
    assert faults['torch'].fix == faults['torchvision'].fix


@pytest.mark.parametrize('name,version,wanted', [
    ('mmcv', '2.2.0', 'mmcv>=2.1.0,<2.2.0'),
    ('mmcv', '2.0.1', 'mmcv>=2.1.0,<2.2.0'),
    ('mmdet', '2.28.2', 'mmdet>=3.3.0,<4.0.0'),
    ('mmengine', '1.0.0', 'mmengine>=0.10.7,<1.0.0'),
])
def test_a_version_out_of_bounds_is_named_with_the_one_wanted(
        name, version, wanted):
    faults = verdict({**UPSTREAM, name: version})
    assert list(faults) == [name]
    assert faults[name].version == version
    assert wanted in faults[name].fix


def test_mmdet_refusing_mmcv_is_mended_at_mmcv_alone():
    error = 'AssertionError: MMCV==2.2.0 is used but incompatible.'
    faults = verdict({**UPSTREAM, 'mmcv': '2.2.0'}, dict(mmdet=error))
    assert set(faults) == {'mmcv', 'mmdet'}
    assert faults['mmcv'].fix and not faults['mmdet'].fix


def test_missing_operators_are_built_without_isolation():
    error = "ModuleNotFoundError: No module named 'mmcv._ext'"
    faults = verdict(errors={'mmcv.ops': error, 'mmdet': error})
    fix = faults['mmcv.ops (compiled)'].fix
    assert '--no-build-isolation' in fix and "'setuptools<81'" in fix
    # pip would else find version 2.1.0 there and build nothing
    assert '--force-reinstall' in fix and '--no-cache-dir' in fix
    assert not faults['mmdet'].fix


def test_operators_for_the_cpu_only_are_a_fault_beside_a_gpu():
    assert 'mmcv.ops (compiled)' in verdict(gpu='H200')
    assert verdict(gpu='H200', ops='13.0') == {}


def test_both_families_at_once_are_both_uninstalled_first():
    faults = verdict({**UPSTREAM, **ONEDL})
    fix = faults['families'].fix
    removed = fix.split('&&')[0].split()
    assert {'mmcv', 'onedl-mmcv', 'mmdet', 'onedl-mmdetection'} <= set(removed)
    assert 'mmcv>=2.1.0' in fix and 'onedl' not in fix.split('&&', 1)[1]


def test_the_fork_is_judged_by_its_own_bounds():
    faults = verdict({**without(ONEDL, 'onedl-mmdetection'),
                      'onedl-mmcv': '2.1.0'})
    assert set(faults) == {'onedl-mmcv', 'onedl-mmdetection'}
    assert 'onedl-mmcv>=2.3.6' in faults['onedl-mmcv'].fix


@pytest.mark.parametrize('demanded,error,pin', [
    ('2.11.0', '', 'torchvision'),
    ('2.13.0', 'RuntimeError: operator torchvision::nms does not exist',
     'torchvision==0.28.0'),
])
def test_torchvision_of_another_torch(demanded, error, pin):
    faults = verdict(errors=dict(torchvision=error),
                     torchvision_torch=demanded)
    assert list(faults) == ['torchvision']
    assert faults['torchvision'].fix.endswith(f'torch==2.13.0 {pin}')


def test_opencv_without_libgl_gets_the_headless_one():
    error = 'ImportError: libGL.so.1: cannot open shared object file'
    fix = verdict(errors=dict(mmcv=error))['mmcv'].fix
    assert 'uninstall -y opencv-python ' in fix
    assert 'opencv-python-headless' in fix


def test_a_new_setuptools_is_named_for_openmim():
    error = "ModuleNotFoundError: No module named 'pkg_resources'"
    fix = verdict(errors=dict(mim=error))['openmim'].fix
    assert fix == "py -m pip install 'setuptools<81'"


def test_an_environment_without_pip_gets_commands_of_uv():
    faults = verdict(without(UPSTREAM, 'mmdet'),
                     commands=Commands('py', has_pip=False))
    assert faults['mmdet'].fix == (
        "uv pip install --python py 'mmdet>=3.3.0,<4.0.0'")


def test_the_report_shows_a_command_once_and_names_its_parts():
    error = "ModuleNotFoundError: No module named 'mmcv'"
    faults = verdict(without(UPSTREAM, 'mmcv'), {'mmcv.ops': error})
    text = report(list(faults.values()))
    assert text.count('--no-build-isolation') == 1
    assert '# mmcv, mmcv.ops (compiled)' in text


@pytest.mark.parametrize('version,inside', [
    ('2.1.0', True), ('2.1.0+cu130', True), ('2.1', True), ('2.1.9', True),
    ('2.0.9', False), ('2.2.0rc1', False), ('2.10.0', False)])
def test_versions_are_compared_as_numbers(version, inside):
    assert fits(version, '2.1.0' if version != '2.1' else '2.1',
                '2.2.0') is inside


def test_a_crash_while_importing_is_that_parts_error(tmp_path, monkeypatch):
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


@pytest.mark.parametrize('family,file', [('upstream', 'openmmlab.txt'),
                                         ('onedl', 'onedl.txt')])
def test_the_extras_ask_for_the_same_bounds(family, file):
    asked = read_pins(file, '(?:>=)')
    for dist, low, high in FAMILIES[family].values():
        assert asked[dist] == low + (f',<{high}' if high else '')


def test_it_runs_on_the_standard_library_alone():
    result = subprocess.run(
        [sys.executable, '-I', '-S', '-c',
         f'import sys; sys.path.insert(0, {str(ROOT)!r})\n'
         'sys.argv[0] = "-m"; sys.orig_argv.append("qbheat_mm.check_env")\n'
         'import qbheat_mm.check_env as check\n'
         'allowed = set(sys.stdlib_module_names) | {"qbheat_mm"}\n'
         'print({m.split(".")[0] for m in sys.modules} - allowed)'],
        capture_output=True, text=True, check=True)
    assert result.stdout.strip() in ("{'__main__'}", 'set()')


def test_the_command_judges_this_very_environment(tmp_path):
    result = subprocess.run([sys.executable, '-m', 'qbheat_mm.check_env'],
                            cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r'^mmcv +\S+ +(upstream|onedl) +ok$', result.stdout,
                     re.M)
