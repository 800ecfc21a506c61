# Copyright (c) QB-Heat MM authors. All rights reserved.
"""``make env`` without downloads, and building mmcv without compiling."""
import re
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from qbheat_mm import build_mmcv

from ..helpers.tools import ROOT, import_tool

WHEEL = 'mmcv-2.1.0-cp311-cp311-linux_x86_64.whl'
# How mmcv 2.1.0 and onedl-mmcv 2.3.6 set the language standard.
SETUP = """
def get_version():
    with open(version_file, encoding='utf-8') as f:
        exec(compile(f.read(), version_file, 'exec'))
    return locals()['__version__']
args = {'cxx': ['-std=c++17']} if new else {'cxx': ['/std:c++17']}
args['cxx'] = ['-Wall', '-std=c++17']
args['nvcc'] = [cuda_args, "-std=c++14"] if cuda_args else ["-std=c++14"]
"""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    for name in ('TORCH', 'TORCHVISION', 'FORCE_CUDA', 'TORCH_CUDA_ARCH_LIST',
                 'CXX', 'PYTHON'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('QBHEAT_CACHE', str(tmp_path / 'cache'))


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """tools/env/make_env.py as a module, with an empty ``.venv``."""
    module = import_tool('env/make_env.py')
    monkeypatch.setattr(module, 'VENV', tmp_path)
    return module


def test_nothing_is_done_twice_and_choices_are_remembered(tool, monkeypatch):
    made = []
    monkeypatch.setattr(tool, 'make', made.append)
    tool.main()
    tool.main()
    assert len(made) == 1
    monkeypatch.setenv('TORCH', '2.11.0')
    tool.main()
    monkeypatch.delenv('TORCH')
    tool.main()
    assert len(made) == 2 and made[-1]['TORCH'] == '2.11.0'
    monkeypatch.setenv('TORCH', '')  # back to the lock
    tool.main()
    assert len(made) == 3 and made[-1]['TORCH'] == ''


def test_a_failed_environment_is_made_again(tool, monkeypatch):
    def fail(wanted):
        raise tool.subprocess.CalledProcessError(1, 'pip')

    monkeypatch.setattr(tool, 'make', fail)
    for _ in range(2):
        with pytest.raises(SystemExit, match='pip'):
            tool.main()


def test_another_torch_gets_its_own_torchvision(tool):
    lock = (ROOT / 'requirements/lock.txt').read_text()
    text = tool.locked(lock, dict(TORCH='2.11.0', TORCHVISION=''))
    assert re.findall(r'^torch.*', text, re.M) == ['torch==2.11.0',
                                                   'torchvision']


def test_another_python_is_refused(tool, monkeypatch, tmp_path):
    (tmp_path / 'pyvenv.cfg').write_text('version = 3.9.1\n')
    tool.check_python()
    monkeypatch.setenv('PYTHON', 'python3')
    with pytest.raises(SystemExit, match=r'3\.9'):
        tool.check_python()


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """Stands in for pip; ``wheel`` is the name of what it builds."""
    source = tmp_path / 'mmcv-2.1.0' / 'setup.py'
    source.parent.mkdir()
    source.write_text(SETUP)
    calls = SimpleNamespace(count=0, wheel=WHEEL, setup='')

    def run(*command, env):
        command = list(map(str, command))
        calls.count += 1
        if 'download' in command:
            with tarfile.open(Path(command[command.index('--dest') + 1],
                                   'mmcv-2.1.0.tar.gz'), 'w:gz') as archive:
                archive.add(source.parent, 'mmcv-2.1.0')
            return
        calls.setup = Path(command[-1], 'setup.py').read_text()
        out = Path(command[command.index('--wheel-dir') + 1])
        out.mkdir()
        (out / calls.wheel).touch()

    monkeypatch.setattr(build_mmcv, 'run', run)
    monkeypatch.setattr(build_mmcv, 'check_tools', lambda: None)
    monkeypatch.setattr(build_mmcv, 'why_not_cuda', lambda torch: 'test')
    return calls


def test_a_built_wheel_is_reused(compiler):
    wheel = build_mmcv.cached_wheel('upstream')
    assert wheel.name == WHEEL and wheel.exists()
    before = compiler.count
    assert build_mmcv.cached_wheel('upstream') == wheel
    assert compiler.count == before


def test_the_source_is_patched_for_newer_torch_and_python(compiler, tmp_path):
    build_mmcv.cached_wheel('upstream')
    assert 'std' not in compiler.setup and '-Wall' in compiler.setup
    compile(compiler.setup, 'setup.py', 'exec')
    (tmp_path / 'version.py').write_text("__version__ = '2.1.0'")
    names = dict(version_file=tmp_path / 'version.py')
    exec(compiler.setup.split('args =')[0], names)
    assert names['get_version']() == '2.1.0'


def test_the_source_is_downloaded_without_running_it(tmp_path, monkeypatch):
    source = tmp_path / 'mmcv-2.1.0'
    source.mkdir()
    (source / 'setup.py').write_text('raise KeyError("__version__")\n')
    with tarfile.open(tmp_path / 'mmcv-2.1.0.tar.gz', 'w:gz') as archive:
        archive.add(source, source.name)
    monkeypatch.setenv('PIP_NO_INDEX', '1')
    monkeypatch.setenv('PIP_FIND_LINKS', str(tmp_path))
    found = build_mmcv.download('mmcv', '2.1.0', tmp_path / 'work')
    assert (found / 'setup.py').read_text().startswith('raise')


def test_a_wheel_without_operators_is_not_kept(compiler, tmp_path):
    compiler.wheel = 'mmcv-2.1.0-py2.py3-none-any.whl'
    with pytest.raises(SystemExit, match='without its operators'):
        build_mmcv.cached_wheel('upstream')
    assert list((tmp_path / 'cache/wheels').iterdir()) == []


def test_the_key_has_everything_the_binary_depends_on(monkeypatch):
    def key(torch='2.13.0', cuda='13.0', capability=(9, 0), with_cuda=True):
        return build_mmcv.cache_key('mmcv', '2.1.0', SimpleNamespace(
            __version__=torch, version=SimpleNamespace(cuda=cuda),
            cuda=SimpleNamespace(get_device_capability=lambda: capability)),
            with_cuda)

    keys = [key(), key(torch='2.11.0'), key(cuda='12.8'),
            key(capability=(8, 0)), key(with_cuda=False)]
    monkeypatch.setenv('FORCE_CUDA', '1')
    monkeypatch.setenv('TORCH_CUDA_ARCH_LIST', '8.0;9.0+PTX')
    keys.append(key())
    assert len(set(keys)) == 6


def test_cuda_operators_need_an_nvcc_of_torchs_cuda(monkeypatch, tmp_path):
    nvcc = tmp_path / 'nvcc'
    nvcc.write_text('#!/bin/sh\necho release 13.0, V13.0.88')
    nvcc.chmod(0o755)
    monkeypatch.setattr(build_mmcv, 'find_nvcc', lambda: str(nvcc))

    def why(gpu=True, cuda='13.0'):
        return build_mmcv.why_not_cuda(SimpleNamespace(
            version=SimpleNamespace(cuda=cuda),
            cuda=SimpleNamespace(is_available=lambda: gpu)))

    assert why() == '' and why(gpu=False)
    assert why(cuda='12.8') and why(cuda=None)
    monkeypatch.setenv('FORCE_CUDA', '1')
    assert why(gpu=False) == ''
    monkeypatch.setattr(build_mmcv, 'find_nvcc', lambda: '')
    assert why()


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv('CXX', 'no-such-compiler')
    with pytest.raises(SystemExit, match='no-such-compiler'):
        build_mmcv.check_tools()
