# Copyright (c) QB-Heat MM authors. All rights reserved.
"""``make env`` without its downloads, and building mmcv without compiling."""
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from qbheat_mm.check_env import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / 'requirements' / 'lock.txt'
OPS = ('mmcv/__init__.py', 'mmcv/_ext.cpython-311-x86_64-linux-gnu.so')
# As mmcv 2.1.0 and onedl-mmcv 2.3.6 name the language standard.
SETUP = """
args = {'cxx': ['-std=c++17']} if new else {'cxx': ['/std:c++17']}
args['cxx'] = ['-Wall', '-std=c++17']
args['nvcc'] = [cuda_args, "-std=c++14"] if cuda_args else ["-std=c++14"]
"""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    for name in ('TORCH', 'TORCHVISION', 'QBHEAT_SYSTEM_TORCH', 'FORCE_CUDA',
                 'TORCH_CUDA_ARCH_LIST', 'CXX', 'PYTHON'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('QBHEAT_CACHE', str(tmp_path / 'cache'))


@pytest.fixture
def tool(monkeypatch):
    """tools/env/make_env.py as a module."""
    monkeypatch.setattr(sys, 'path', list(sys.path))
    spec = importlib.util.spec_from_file_location(
        'make_env', ROOT / 'tools/env/make_env.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def mmcv(tool):
    return sys.modules['build_mmcv']


def test_another_torch_gets_its_own_torchvision(tool, monkeypatch):
    monkeypatch.setenv('TORCH', '2.11.0')
    pins = tool.read_pins(LOCK, tool.read_choices({}))
    assert pins['torch'] == '2.11.0' and pins['torchvision'] == ''
    assert pins['mmcv'] == '2.1.0'
    monkeypatch.setenv('TORCHVISION', '0.26.0')
    pins = tool.read_pins(LOCK, tool.read_choices({}))
    assert pins['torchvision'] == '0.26.0'


def test_the_systems_torch_keeps_the_toolboxes_versions(tool, monkeypatch):
    monkeypatch.setenv('QBHEAT_SYSTEM_TORCH', '1')
    pins = tool.read_pins(LOCK, tool.read_choices({}))
    assert 'torch' not in pins and 'torchvision' not in pins
    assert pins['numpy'] == '' and pins['mmdet'] == '3.3.0'
    monkeypatch.setenv('TORCH', '2.11.0')
    with pytest.raises(tool.EnvError, match='leave out TORCH'):
        tool.read_choices({})


def test_choices_are_remembered(tool, monkeypatch):
    stamp = dict(choices=dict(TORCH='2.11.0'))
    assert tool.read_choices(stamp)['TORCH'] == '2.11.0'
    monkeypatch.setenv('TORCH', '')  # back to the lock's
    assert tool.read_choices(stamp)['TORCH'] == ''


@pytest.fixture
def made(tool, tmp_path):
    """A project and its environment as ``make env`` leaves them."""
    root = tmp_path / 'project'
    (root / 'qbheat_mm' / '.mim' / 'configs').mkdir(parents=True)
    shutil.copytree(ROOT / 'requirements', root / 'requirements')
    venv = root / '.venv'
    packages = venv / 'lib' / 'python3.11' / 'site-packages'
    choices = tool.read_choices({})
    for name, version in {**tool.read_pins(LOCK, choices),
                          'qbheat_mm': '0.1.0'}.items():
        (packages / f'{name.replace("-", "_")}-{version}.dist-info').mkdir(
            parents=True)
    (packages / 'mmcv').mkdir()
    (packages / 'mmcv' / '_ext.cpython-311.so').touch()
    (venv / tool.STAMP).write_text(tool.json.dumps(dict(
        choices=choices, fingerprint=tool.fingerprint(root, venv, choices))))
    assert tool.is_up_to_date(root, venv, choices)
    return root, venv, packages


@pytest.mark.parametrize('change', [
    lambda root, site: (site / 'msgspec-0.22.0.dist-info').rmdir(),
    lambda root, site: (site / 'mmdet-3.3.0.dist-info').rename(
        site / 'mmdet-3.2.0.dist-info'),
    lambda root, site: (site / 'qbheat_mm-0.1.0.dist-info').rmdir(),
    lambda root, site: (site / 'mmcv' / '_ext.cpython-311.so').unlink(),
    lambda root, site: (site / 'onedl_mmcv-2.3.6.dist-info').mkdir(),
    lambda root, site: (root / 'qbheat_mm' / '.mim' / 'configs').rmdir(),
    lambda root, site: (root / 'requirements' / 'lock.txt').write_text(
        LOCK.read_text() + 'tqdm==4.70.0\n'),
    lambda root, site: (root / '.venv' / 'qbheat_env.json').unlink(),
    lambda root, site: os.environ.update(TORCH='2.11.0'),
], ids=['missing', 'version', 'project', 'operators', 'family', 'mim', 'lock',
        'unfinished', 'choice'])
def test_changes_make_it_out_of_date(tool, made, change, monkeypatch):
    monkeypatch.setenv('TORCH', '')  # restored after the test
    root, venv, packages = made
    change(root, packages)
    choices = tool.read_choices(tool.read_stamp(venv))
    assert not tool.is_up_to_date(root, venv, choices)


# Building mmcv


def make_wheel(path, names=OPS):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, 'w') as archive:
        for name in names:
            archive.writestr(name, '')
    return path


@pytest.fixture
def compiler(mmcv, monkeypatch, tmp_path):
    """Stands in for pip; its attributes say what it builds."""
    source = tmp_path / 'mmcv-2.1.0' / 'setup.py'
    source.parent.mkdir()
    source.write_text(SETUP)
    calls = SimpleNamespace(commands=[], names=OPS, code=0, setup='')

    def run(command, log, env):
        command = list(map(str, command))
        calls.commands.append(command)
        if 'download' in command:
            with tarfile.open(Path(command[command.index('--dest') + 1],
                                   'mmcv-2.1.0.tar.gz'), 'w:gz') as archive:
                archive.add(source.parent, 'mmcv-2.1.0')
        elif calls.code:
            raise mmcv.EnvError('failed')
        else:
            calls.setup = Path(command[-1], 'setup.py').read_text()
            out = Path(command[command.index('--wheel-dir') + 1])
            make_wheel(out / 'mmcv-2.1.0-x.whl', calls.names)

    monkeypatch.setattr(mmcv, 'watch', run)
    monkeypatch.setattr(mmcv, 'check_tools', lambda: None)
    monkeypatch.setattr(mmcv, 'why_not_cuda', lambda torch: 'test')
    return calls


def cached(tmp_path):
    return [path.name for path in (tmp_path / 'cache/wheels').iterdir()
            if path.is_dir() and not path.name.startswith('.')]


def test_a_built_wheel_is_reused_and_names_no_standard(mmcv, compiler,
                                                       tmp_path):
    wheel = mmcv.cached_wheel('upstream')
    assert mmcv.has_ops(wheel) and wheel.parent.name in cached(tmp_path)
    assert 'std' not in compiler.setup and '-Wall' in compiler.setup
    compile(compiler.setup, 'setup.py', 'exec')
    compiler.commands.clear()
    assert mmcv.cached_wheel('upstream') == wheel and not compiler.commands
    wheel.write_bytes(b'half')  # damaged: built again
    assert mmcv.has_ops(mmcv.cached_wheel('upstream')) and compiler.commands


@pytest.mark.parametrize('change', [dict(code=1), dict(names=OPS[:1])])
def test_a_failed_build_leaves_nothing_in_the_cache(mmcv, compiler, tmp_path,
                                                    change):
    vars(compiler).update(change)
    with pytest.raises(mmcv.EnvError, match='failed|without its operators'):
        mmcv.cached_wheel('upstream')
    assert cached(tmp_path) == []
    vars(compiler).update(code=0, names=OPS)
    assert mmcv.has_ops(mmcv.cached_wheel('upstream'))


def test_a_failing_command_shows_the_end_of_its_log(mmcv, tmp_path, capsys):
    log = tmp_path / 'log'
    with pytest.raises(mmcv.EnvError, match=f'exit status 3.*{log}'):
        mmcv.watch(['sh', '-c', 'echo no luck; exit 3'], log,
                   dict(os.environ))
    assert 'no luck' in capsys.readouterr().out


def test_the_key_has_everything_the_binary_depends_on(mmcv, monkeypatch):
    def key(torch='2.13.0', cuda='13.0', capability=(9, 0), with_cuda=True):
        return mmcv.key('mmcv', '2.1.0', SimpleNamespace(
            __version__=torch, version=SimpleNamespace(cuda=cuda),
            cuda=SimpleNamespace(get_device_capability=lambda: capability)),
            with_cuda)

    keys = [key(), key(torch='2.11.0'), key(cuda='12.8'),
            key(capability=(8, 0)), key(with_cuda=False)]
    monkeypatch.setenv('FORCE_CUDA', '1')
    monkeypatch.setenv('TORCH_CUDA_ARCH_LIST', '8.0;9.0+PTX')
    keys.append(key())
    assert len(set(keys)) == 6 and '-sm8.0-9.0+PTX-' in keys[-1]


def test_cuda_operators_need_an_nvcc_of_torchs_cuda(mmcv, monkeypatch,
                                                    tmp_path):
    nvcc = tmp_path / 'nvcc'
    nvcc.write_text('#!/bin/sh\necho release 13.0, V13.0.88')
    nvcc.chmod(0o755)
    monkeypatch.setattr(mmcv, 'find_nvcc', lambda: str(nvcc))

    def why(gpu=True, cuda='13.0'):
        return mmcv.why_not_cuda(SimpleNamespace(
            version=SimpleNamespace(cuda=cuda),
            cuda=SimpleNamespace(is_available=lambda: gpu)))

    assert why() == '' and 'no GPU' in why(gpu=False)
    assert 'of CUDA 12.8' in why(cuda='12.8') and 'CPU' in why(cuda=None)
    monkeypatch.setattr(mmcv, 'find_nvcc', lambda: '')
    assert 'no nvcc' in why()
    monkeypatch.setattr(mmcv, 'find_nvcc', lambda: str(nvcc))
    monkeypatch.setenv('FORCE_CUDA', '1')
    assert why(gpu=False) == ''


def test_missing_compilers_and_tools_are_named(mmcv, monkeypatch):
    monkeypatch.setenv('CXX', 'no-such-compiler')
    with pytest.raises(mmcv.EnvError, match='no-such-compiler.*mmcv-lite'):
        mmcv.check_tools()
    monkeypatch.setattr(mmcv.importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(mmcv.EnvError, match="pip install .*'setuptools<81'"):
        mmcv.check_tools()


def test_exec_creates_local_variables_in_the_build(mmcv, tmp_path):
    """As mmcv's setup.py needs it, also on Python 3.13."""
    (tmp_path / 'sitecustomize.py').write_text(mmcv.LEGACY_EXEC)
    code = ('def f():\n  exec("a = 1")\n  return locals()["a"]\nprint(f())')
    for python in filter(None, (sys.executable, shutil.which('python3.13'))):
        done = subprocess.run([python, '-c', code], capture_output=True,
                              text=True, env=dict(os.environ,
                                                  PYTHONPATH=str(tmp_path)))
        assert done.stdout == '1\n' or 'pyenv' in done.stderr, done.stderr


def test_the_versions_built_are_those_tested(mmcv):
    assert {family: FAMILIES[family]['mmcv'][:2]
            for family in mmcv.MMCV} == mmcv.MMCV
    assert '=='.join(mmcv.MMCV['upstream']) in LOCK.read_text().splitlines()
