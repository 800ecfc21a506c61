# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The decisions of ``make env``; the making itself needs a network."""
import os
import shutil
import stat
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / 'requirements' / 'lock.txt'
CHOICES = ('TORCH', 'TORCHVISION', 'QBHEAT_SYSTEM_TORCH')


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    for name in CHOICES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('QBHEAT_CACHE', str(tmp_path / 'cache'))
    monkeypatch.syspath_prepend(str(ROOT / 'tools' / 'env'))


@pytest.fixture
def settings():
    import settings
    return settings


@pytest.fixture
def wheels():
    import mmcv_wheel
    return mmcv_wheel


# What is to be installed


def test_another_torch_leaves_its_torchvision_to_the_resolver(
        settings, monkeypatch):
    monkeypatch.setenv('TORCH', '2.11.0')
    pins = settings.Settings.read({}).pins(LOCK)
    assert pins['torch'] == '2.11.0' and pins['torchvision'] == ''
    monkeypatch.setenv('TORCHVISION', '0.26.0')
    assert settings.Settings.read({}).pins(LOCK)['torchvision'] == '0.26.0'
    assert pins['mmcv'] == '2.1.0'


def test_the_machines_own_torch_holds_the_toolboxes_alone(
        settings, monkeypatch):
    monkeypatch.setenv('QBHEAT_SYSTEM_TORCH', '1')
    pins = settings.Settings.read({}).pins(LOCK)
    assert 'torch' not in pins and 'torchvision' not in pins
    assert pins['numpy'] == '' and pins['mmdet'] == '3.3.0'
    monkeypatch.setenv('TORCH', '2.11.0')
    with pytest.raises(Exception, match='leave out TORCH'):
        settings.Settings.read({}).pins(LOCK)


def test_choices_are_kept_until_named_again(settings, monkeypatch):
    kept = dict(settings=dict(torch='2.11.0', torchvision='',
                              system_torch=''))
    assert settings.Settings.read(kept).torch == '2.11.0'
    monkeypatch.setenv('TORCH', '2.12.0')
    assert settings.Settings.read(kept).torch == '2.12.0'
    monkeypatch.setenv('TORCH', '')  # back to the lock's
    assert settings.Settings.read(kept).pins(LOCK) == settings.Settings(
    ).pins(LOCK)


# When there is nothing to do


@pytest.fixture
def made(settings, tmp_path):
    """A project and an environment, as ``make env`` leaves them behind."""
    root = tmp_path / 'project'
    (root / 'qbheat_mm' / '.mim' / 'configs').mkdir(parents=True)
    shutil.copytree(ROOT / 'requirements', root / 'requirements')
    venv = root / '.venv'
    site = venv / 'lib' / 'python3.11' / 'site-packages'
    for name, version in {**settings.Settings().pins(LOCK),
                          'qbheat_mm': '0.1.0'}.items():
        (site / f'{name.replace("-", "_")}-{version}.dist-info').mkdir(
            parents=True)
    (site / 'mmcv').mkdir()
    (site / 'mmcv' / '_ext.cpython-311.so').touch()
    choices = settings.Settings()
    settings.write_stamp(venv, choices,
                         settings.fingerprint(root, venv, choices))
    return root, venv, site


def up_to_date(settings, root, venv):
    choices = settings.Settings.read(settings.read_stamp(venv))
    return settings.is_up_to_date(root, venv, choices)


def test_a_made_environment_is_up_to_date(settings, made):
    root, venv, _ = made
    assert up_to_date(settings, root, venv)


@pytest.mark.parametrize('change', [
    lambda root, site: (site / 'mmdet-3.3.0.dist-info').rmdir(),
    lambda root, site: (site / 'mmdet-3.3.0.dist-info').rename(
        site / 'mmdet-3.2.0.dist-info'),
    lambda root, site: (site / 'qbheat_mm-0.1.0.dist-info').rmdir(),
    lambda root, site: (site / 'mmcv' / '_ext.cpython-311.so').unlink(),
    lambda root, site: (site / 'onedl_mmcv-2.3.6.dist-info').mkdir(),
    lambda root, site: (root / 'qbheat_mm' / '.mim' / 'configs').rmdir(),
    lambda root, site: (root / 'requirements' / 'lock.txt').write_text(
        LOCK.read_text() + 'tqdm==4.70.0\n'),
    lambda root, site: (root / 'setup.py').write_text('# another'),
    lambda root, site: os.environ.update(TORCH='2.11.0'),
], ids=['gone', 'other-version', 'project', 'operators', 'other-family',
        'mim', 'lock', 'setup', 'choice'])
def test_any_change_makes_it_out_of_date(settings, made, change, monkeypatch):
    monkeypatch.setenv('TORCH', '')  # restored after the test
    root, venv, site = made
    change(root, site)
    assert not up_to_date(settings, root, venv)


def test_an_unfinished_environment_is_not_up_to_date(settings, made):
    root, venv, _ = made
    settings.write_stamp(venv, settings.Settings(), '')
    assert not up_to_date(settings, root, venv)


# mmcv's wheel

FACTS = dict(torch='2.13.0+cu130', cuda='13.0', gpu=True, capability='90',
             nvcc='', python='cp311', machine='x86_64', header=__file__,
             cxx='sh', includes=['torchs/headers'])


def make_script(path, lines):
    path.write_text(f'#!/bin/sh\n{lines}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def make_wheel(path, names):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, 'w') as archive:
        for name in names:
            archive.writestr(name, '')
    return path


OPS = ('mmcv/__init__.py', 'mmcv/_ext.cpython-311-x86_64-linux-gnu.so')


def test_a_wheel_without_operators_is_told_apart(wheels, tmp_path):
    assert wheels.has_ops(make_wheel(tmp_path / 'a.whl', OPS))
    assert not wheels.has_ops(make_wheel(tmp_path / 'b.whl', OPS[:1]))
    (tmp_path / 'half.whl').write_bytes(
        (tmp_path / 'a.whl').read_bytes()[:40])
    assert not wheels.has_ops(tmp_path / 'half.whl')


def test_each_thing_the_binary_depends_on_changes_the_key(wheels):
    keys = {wheels.key('2.1.0', {**FACTS, **change}, with_cuda=cuda)
            for change, cuda in [({}, False), ({}, True),
                                 (dict(torch='2.11.0+cu130'), False),
                                 (dict(python='cp312'), False),
                                 (dict(machine='aarch64'), False),
                                 (dict(capability='80'), True),
                                 (dict(cuda='12.8'), True)]}
    assert len(keys) == 7


def test_cuda_operators_need_an_nvcc_of_torchs_cuda(wheels, tmp_path):
    nvcc = make_script(tmp_path / 'nvcc', 'echo release 13.0, V13.0.88')
    assert wheels.why_not_cuda({**FACTS, 'nvcc': str(nvcc)}) == ''
    assert 'no nvcc' in wheels.why_not_cuda(FACTS)
    assert 'no nvcc' in wheels.why_not_cuda({**FACTS, 'nvcc': None})
    assert 'of CUDA 12.8' in wheels.why_not_cuda(
        {**FACTS, 'nvcc': str(nvcc), 'cuda': '12.8'})
    assert 'no GPU' in wheels.why_not_cuda(
        {**FACTS, 'nvcc': str(nvcc), 'gpu': False})


def test_a_build_for_the_cpu_sees_no_gpu_and_one_for_cuda_its_toolkit(
        wheels, monkeypatch, tmp_path):
    monkeypatch.delenv('CUDA_HOME', raising=False)
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '0')
    monkeypatch.setenv('CPATH', 'mine')
    env = wheels.build_environment(FACTS, with_cuda=False)
    assert (env['FORCE_CUDA'], env['CUDA_VISIBLE_DEVICES']) == ('0', '')
    nvcc = make_script(tmp_path / 'nvcc',
                       'echo "#$ TOP=/toolkit/bin/.." >&2')
    env = wheels.build_environment({**FACTS, 'nvcc': str(nvcc)},
                                   with_cuda=True)
    assert env['CUDA_HOME'] == '/toolkit'
    assert (env['FORCE_CUDA'], env['CUDA_VISIBLE_DEVICES']) == ('1', '0')
    assert env['CPATH'] == os.pathsep.join(['mine', 'torchs/headers'])


def test_uvs_settings_for_offline_work_reach_the_build(wheels, monkeypatch):
    for name in ('PIP_FIND_LINKS', 'PIP_NO_INDEX'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('UV_FIND_LINKS', 'wheels')
    monkeypatch.setenv('UV_OFFLINE', '1')
    env = wheels.build_environment(FACTS, with_cuda=False)
    assert (env['PIP_FIND_LINKS'], env['PIP_NO_INDEX']) == ('wheels', '1')


@pytest.fixture
def builder(tmp_path):
    """A stand-in for Python whose ``-m pip wheel`` runs a shell's lines."""

    def script(lines):
        return make_script(
            tmp_path / 'python',
            'while [ "$1" != --wheel-dir ]; do shift; done\n'
            f'out=$2; mkdir -p "$out"\n{lines}')

    return script


def build(wheels, python, monkeypatch):
    monkeypatch.setattr(wheels, 'query', lambda _: {**FACTS, 'gpu': False})
    return wheels.cached_wheel(python, '2.1.0')


def folders(tmp_path):
    return [p.name for p in (tmp_path / 'cache' / 'wheels').iterdir()
            if p.is_dir()]


def test_a_built_wheel_is_kept_and_reused(wheels, builder, tmp_path,
                                          monkeypatch):
    source = make_wheel(tmp_path / 'mmcv-2.1.0-x.whl', OPS)
    wheel = build(wheels, builder(f'cp {source} "$out"'), monkeypatch)
    assert wheels.has_ops(wheel)
    assert folders(tmp_path) == [wheel.parent.name]
    assert build(wheels, builder('exit 1'), monkeypatch) == wheel


@pytest.mark.parametrize('lines,message', [
    ('echo "[3/9] c++ nms.cpp"; echo error: no luck; exit 1', 'failed'),
    ('cp {whole} "$out"; exit 1', 'failed'),
    ('cp {bare} "$out"', 'without its operators')])
def test_a_failed_build_shows_its_log_and_leaves_nothing(
        wheels, builder, tmp_path, monkeypatch, capsys, lines, message):
    whole = make_wheel(tmp_path / 'whole' / 'mmcv-2.1.0-x.whl', OPS)
    bare = make_wheel(tmp_path / 'bare' / 'mmcv-2.1.0-x.whl', OPS[:1])
    lines = lines.format(whole=whole, bare=bare)
    python = builder(f'echo compiling; {lines}')
    with pytest.raises(Exception, match=message) as raised:
        build(wheels, python, monkeypatch)
    assert '.log' in str(raised.value)
    assert 'compiling' in capsys.readouterr().out
    assert folders(tmp_path) == []


def test_a_wheel_spoilt_in_the_cache_is_built_again(
        wheels, builder, tmp_path, monkeypatch):
    source = make_wheel(tmp_path / 'mmcv-2.1.0-x.whl', OPS)
    wheel = build(wheels, builder(f'cp {source} "$out"'), monkeypatch)
    wheel.write_bytes(b'half')
    assert wheels.has_ops(build(wheels, builder(f'cp {source} "$out"'),
                                monkeypatch))


def test_a_long_build_says_how_far_it_is(wheels, builder, tmp_path,
                                         monkeypatch, capsys):
    source = make_wheel(tmp_path / 'mmcv-2.1.0-x.whl', OPS)
    monkeypatch.setattr(wheels, 'HEARTBEAT', .05)
    build(wheels, builder('echo "[3/9] c++"; sleep 1; '
                          f'cp {source} "$out"'), monkeypatch)
    assert 'step 3 of 9' in capsys.readouterr().out


def test_a_missing_compiler_is_named_before_the_build(wheels, monkeypatch,
                                                      tmp_path):
    monkeypatch.setattr(wheels, 'query', lambda _: {
        **FACTS, 'gpu': False, 'cxx': 'no-such-compiler'})
    with pytest.raises(Exception, match='no-such-compiler'):
        wheels.cached_wheel(tmp_path / 'python', '2.1.0')
