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
    MIN_PYTHON,
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


LITE = {
    'numpy': '2.4.6', 'torch': '2.15.0', 'torchvision': '0.29.2',
    'mmengine': '0.10.7', 'mmcv-lite': '2.1.0', 'mmpretrain': '1.2.0',
    'qbheat_mm': '0.1.0'}
NO_OPS = {'mmcv.ops': "ModuleNotFoundError: No module named 'mmcv._ext'",
          'mmdet': "ModuleNotFoundError: No module named 'mmdet'",
          'mim': "ModuleNotFoundError: No module named 'mim'"}


def verdict(dists=UPSTREAM, errors=(), gpu='', ops='not available',
            commands=COMMANDS, **facts):
    """Judge an environment; return the rows at fault by their part."""
    return {row.part: row for row in
            rows_of(dists, errors, gpu, ops, commands, **facts)
            if row.problem}


def rows_of(dists, errors=(), gpu='', ops='not available', commands=COMMANDS,
            **facts):
    imports = {name: dict(error='') for name in IMPORTS}
    imports['torch'].update(cuda='13.0', gpu=gpu)
    imports['mmcv.ops'].update(cuda=ops)
    for name, error in dict(errors).items():
        imports[name] = dict(error=error)
    return judge(Facts('3.11.7', dict(dists), imports, **facts), commands)


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
    ('mmcv', '2.2.0', '-m qbheat_mm.build_mmcv'),
    ('mmcv', '2.0.1', '-m qbheat_mm.build_mmcv'),
    ('torch', '2.5.1', 'torch>=2.6'),
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


def test_missing_operators_are_built_by_the_one_command():
    error = NO_OPS['mmcv.ops']
    faults = verdict(errors={'mmcv.ops': error, 'mmdet': error})
    assert faults['mmcv.ops (compiled)'].fix == 'py -m qbheat_mm.build_mmcv'
    assert not faults['mmdet'].fix
    fork = verdict(ONEDL, {'mmcv.ops': error})
    assert fork['mmcv.ops (compiled)'].fix == (
        'py -m qbheat_mm.build_mmcv --family onedl')


def test_operators_for_the_cpu_only_are_a_fault_beside_a_gpu():
    assert 'mmcv.ops (compiled)' in verdict(gpu='H200')
    assert verdict(gpu='H200', ops='13.0') == {}


def test_both_families_at_once_are_both_uninstalled_first():
    faults = verdict({**UPSTREAM, **ONEDL})
    fix = faults['families'].fix
    removed = fix.split('&&')[0].split()
    assert {'mmcv', 'onedl-mmcv', 'mmdet', 'onedl-mmdetection'} <= set(removed)
    assert 'mmdet>=3.3.0' in fix and 'onedl' not in fix.split('&&', 1)[1]
    assert fix.endswith('py -m qbheat_mm.build_mmcv')


def test_the_fork_is_judged_by_its_own_bounds():
    faults = verdict({**without(ONEDL, 'onedl-mmdetection'),
                      'onedl-mmcv': '2.1.0'})
    assert set(faults) == {'onedl-mmcv', 'onedl-mmdetection'}
    assert '--family onedl' in faults['onedl-mmcv'].fix


# Without operators


def test_without_operators_all_but_detection_is_well():
    assert verdict(LITE, NO_OPS, torchvision_torch='2.15.0') == {}
    row, = [r for r in rows_of(LITE, NO_OPS) if r.part == 'detection']
    text = report([row])
    assert 'pre-training' in text and 'NO' not in text
    assert 'py -m qbheat_mm.build_mmcv && ' in text and 'mmdet>=3.3.0' in text


def test_what_is_wrong_beside_missing_operators_is_told():
    faults = verdict({**without(LITE, 'mmpretrain'), 'mmcv-lite': '2.2.0'},
                     NO_OPS)
    assert set(faults) == {'mmcv-lite', 'mmpretrain'}
    assert '--no-build-isolation' in faults['mmcv-lite'].fix
    assert "'setuptools<81'" in faults['mmcv-lite'].fix


@pytest.mark.parametrize('there', ['mmdet', 'mmcv'])
def test_operators_are_asked_for_where_something_needs_them(there):
    faults = verdict({**LITE, there: UPSTREAM[there]}, NO_OPS)
    assert faults['mmcv'].fix == 'py -m qbheat_mm.build_mmcv'
    assert 'mmcv-lite is in its place' in faults['mmcv'].problem


def test_the_fork_beside_mmcv_lite_is_two_families():
    fix = verdict({**ONEDL, 'mmcv-lite': '2.1.0'})['families'].fix
    assert 'mmcv-lite' in fix.split('&&')[0].split()


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
    assert text.count('qbheat_mm.build_mmcv') == 1
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


EXTRAS = dict(upstream='openmmlab.txt', onedl='onedl.txt', lite='pretrain.txt')


@pytest.mark.parametrize('family', FAMILIES)
def test_the_extras_ask_for_the_same_bounds(family):
    asked = read_pins(EXTRAS[family], '(?:>=)')
    bounds = {**COMMON, **FAMILIES[family]}
    del bounds['numpy']  # which comes with the package itself
    if family != 'lite':
        del bounds['mmcv']  # built, for no index has it with operators
    for dist, low, high in bounds.values():
        assert asked[dist] == low + (f',<{high}' if high else ''), dist


def test_every_place_says_the_same_oldest_versions():
    readme = (ROOT / 'README.md').read_text()
    assert f'Python ≥ {MIN_PYTHON}' in readme
    assert set(re.findall(r'torch ≥ (\d+\.\d+)', readme)) == {
        COMMON['torch'][1]}
    assert f"python_requires='>={MIN_PYTHON}'" in (
        ROOT / 'setup.py').read_text()
    assert read_pins('runtime.txt', '>=') == dict(numpy=COMMON['numpy'][1])
    oldest = (ROOT / 'docs' / 'compatibility.md').read_text()
    for name in ('torch', 'torchvision', 'numpy'):
        assert re.search(rf'\b{name} {COMMON[name][1]}\.', oldest), name


def test_a_torch_below_the_oldest_is_refused_in_one_line(monkeypatch):
    import torch

    from qbheat_mm import compat
    monkeypatch.setattr(torch, '__version__', '2.5.1+cu124')
    with pytest.raises(ImportError, match='2.6 or newer.*2.5.1') as raised:
        compat.apply()
    assert len(str(raised.value).splitlines()) == 1
    assert 'qbheat_mm.check_env' in str(raised.value)


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
    assert re.search(r'^(onedl-)?mmcv(-lite)? +\S+ +(upstream|onedl|lite) +'
                     'ok$', result.stdout, re.M)
