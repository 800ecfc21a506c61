# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Building mmcv's operators, with a stand-in for Python that compiles none."""
import ast
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from qbheat_mm.check_env import FAMILIES, Commands

ROOT = Path(__file__).resolve().parents[2]
FACTS = dict(torch='2.13.0+cu130', cuda='13.0', gpu=True, capability='90',
             nvcc='', python='cp311', machine='x86_64', header=__file__,
             cxx='sh', includes=['torchs/headers'], onedl=False)
OPS = ('mmcv/__init__.py', 'mmcv/_ext.cpython-311-x86_64-linux-gnu.so')

# As mmcv 2.1.0 and onedl-mmcv 2.3.6 name the language standard.
SETUP = """
extra_compile_args = {'cxx': []}
if platform.system() != 'Windows':
    if old:
        extra_compile_args['cxx'] = ['-std=c++14']
    else:
        extra_compile_args['cxx'] = ['-std=c++17']
else:
    extra_compile_args['cxx'] = ['/std:c++17']
if mps:
    extra_compile_args['cxx'] = ['-Wall', '-std=c++17']
    extra_compile_args['cxx'] += ['-std=c++17', '-ObjC++']
nvcc = [cuda_args, "-std=c++14"] if cuda_args else ["-std=c++14"]
if 'nvcc' in extra_compile_args:
    extra_compile_args['nvcc'] += ['-std=c++17']  # ['std=c++14'] before
"""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    for name in ('FORCE_CUDA', 'TORCH_CUDA_ARCH_LIST', 'CFLAGS'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('QBHEAT_CACHE', str(tmp_path / 'cache'))
    monkeypatch.syspath_prepend(str(ROOT / 'tools' / 'env'))


@pytest.fixture
def facts():
    import mmcv_facts
    return mmcv_facts


@pytest.fixture
def source():
    import mmcv_source
    return mmcv_source


@pytest.fixture
def wheels():
    import mmcv_wheel
    return mmcv_wheel


def make_script(path, lines):
    path.write_text(f'#!/bin/sh\n{lines}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def make_wheel(path, names=OPS):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, 'w') as archive:
        for name in names:
            archive.writestr(name, '')
    return path


def make_sdist(folder, name='mmcv-2.1.0', setup=SETUP):
    root = folder / name
    root.mkdir(parents=True)
    (root / 'setup.py').write_text(setup)
    with tarfile.open(folder / f'{name}.tar.gz', 'w:gz') as archive:
        archive.add(root, name)
    shutil.rmtree(root)
    return folder / f'{name}.tar.gz'


# The language standard


def strings(text):
    return [node.value for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def test_the_language_standard_is_left_to_torch(source, tmp_path):
    make_sdist(tmp_path)
    root = source.unpack(tmp_path)
    source.leave_standard_to_torch(root)
    left = (root / 'setup.py').read_text()
    assert not [s for s in strings(left) if 'std' in s]
    assert {'-Wall', '-ObjC++', 'nvcc'} <= set(strings(left))  # nothing else
    source.leave_standard_to_torch(root)  # where nothing is named
    assert (root / 'setup.py').read_text() == left


COMPILER = """
case "$*" in *--version*) echo release {cuda}, V{cuda}.1; exit;; esac
echo "$@" >> {log}
while [ $# -gt 0 ]; do
    case "$1" in -o|-MF|--dependency-output)
        mkdir -p "$(dirname "$2")"; : > "$2";;
    esac; shift
done"""
EXTENSION = """
from setuptools import setup
from torch.utils.cpp_extension import (BuildExtension, CppExtension,
                                       CUDAExtension)
flags = dict(cxx=['-std=c++11'], nvcc=['-std=c++11', '-DX'])
setup(name='x', cmdclass=dict(build_ext=BuildExtension),
      ext_modules=[{kind}('x', {sources}, extra_compile_args=flags)])
"""


@pytest.mark.parametrize('kind,sources', [
    ('CppExtension', ['x.cpp']), ('CUDAExtension', ['x.cpp', 'y.cu'])])
def test_the_compilers_are_told_the_standard_of_torchs_headers(
        source, tmp_path, kind, sources):
    """A real build by this very torch, with compilers that take notes."""
    import torch
    if kind == 'CUDAExtension' and not torch.version.cuda:
        pytest.skip('this torch is built for the CPU only')
    for name in sources:
        (tmp_path / name).touch()
    (tmp_path / 'setup.py').write_text(EXTENSION.format(
        kind=kind, sources=sources))
    source.leave_standard_to_torch(tmp_path)
    log = tmp_path / 'log'
    (tmp_path / 'bin').mkdir()
    for name in ('cxx', 'nvcc'):
        make_script(tmp_path / 'bin' / name, COMPILER.format(
            log=log, cuda=torch.version.cuda))
    cxx = str(tmp_path / 'bin' / 'cxx')
    done = subprocess.run(
        [sys.executable, 'setup.py', 'build_ext', '--inplace'],
        cwd=tmp_path, capture_output=True, text=True,
        env=dict(os.environ, CC=cxx, CXX=cxx, CUDA_HOME=str(tmp_path),
                 TORCH_CUDA_ARCH_LIST='8.0',
                 TORCH_DONT_CHECK_COMPILER_ABI='1'))
    assert done.returncode == 0, done.stdout + done.stderr
    for name in sources:
        compiling, = [line for line in log.read_text().splitlines()
                      if f'{name} ' in line and ' -o ' in line]
        standards = re.findall(r'-std=(?:c|gnu)\+\+(\d+)', compiling)
        assert set(map(int, standards)) in ({17}, {20}, {23}), compiling


@pytest.mark.parametrize('break_it,message', [
    (lambda file: file.write_bytes(file.read_bytes()[:60]), 'damaged'),
    (lambda file: file.unlink(), '0 source distributions'),
    (lambda file: shutil.copy(file, file.with_name('x.tar.gz')),
     '2 source distributions')])
def test_a_source_that_is_none_is_named(source, tmp_path, break_it, message):
    break_it(make_sdist(tmp_path))
    with pytest.raises(Exception, match=message):
        source.unpack(tmp_path)


def test_a_standard_named_in_a_new_way_is_told(source, tmp_path):
    (tmp_path / 'setup.py').write_text("f('-std=c++17' if new else 'x')")
    with pytest.raises(Exception, match='in a new way'):
        source.leave_standard_to_torch(tmp_path)


def test_the_versions_are_those_that_are_judged_as_fitting(source):
    tried = {
        family: FAMILIES[family]['mmcv'][:2] for family in source.MMCV}
    assert tried == source.MMCV
    lock = (ROOT / 'requirements' / 'lock.txt').read_text()
    assert '=='.join(source.MMCV['upstream']) in lock.splitlines()


# The wheel


def test_a_wheel_without_operators_is_told_apart(wheels, tmp_path):
    assert wheels.has_ops(make_wheel(tmp_path / 'a.whl', OPS))
    assert not wheels.has_ops(make_wheel(tmp_path / 'b.whl', OPS[:1]))
    (tmp_path / 'half.whl').write_bytes(
        (tmp_path / 'a.whl').read_bytes()[:40])
    assert not wheels.has_ops(tmp_path / 'half.whl')


def test_each_thing_the_binary_depends_on_changes_the_key(facts):
    keys = {facts.key('mmcv', '2.1.0', {**FACTS, **change}, cuda)
            for change, cuda in [({}, False), ({}, True),
                                 (dict(torch='2.11.0+cu130'), False),
                                 (dict(python='cp312'), False),
                                 (dict(machine='aarch64'), False),
                                 (dict(capability='80'), True),
                                 (dict(cuda='12.8'), True)]}
    assert len(keys) == 7


def test_cuda_operators_need_an_nvcc_of_torchs_cuda(facts, tmp_path):
    nvcc = make_script(tmp_path / 'nvcc', 'echo release 13.0, V13.0.88')
    assert facts.why_not_cuda({**FACTS, 'nvcc': str(nvcc)}) == ''
    assert 'no nvcc' in facts.why_not_cuda(FACTS)
    assert 'no nvcc' in facts.why_not_cuda({**FACTS, 'nvcc': None})
    assert 'of CUDA 12.8' in facts.why_not_cuda(
        {**FACTS, 'nvcc': str(nvcc), 'cuda': '12.8'})
    assert 'no GPU' in facts.why_not_cuda(
        {**FACTS, 'nvcc': str(nvcc), 'gpu': False})


def test_a_build_for_the_cpu_sees_no_gpu_and_one_for_cuda_its_toolkit(
        wheels, monkeypatch, tmp_path):
    monkeypatch.delenv('CUDA_HOME', raising=False)
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '0')
    monkeypatch.setenv('CPATH', 'mine')
    env = wheels.compiler_environment(
        dict(os.environ), FACTS, with_cuda=False)
    assert (env['FORCE_CUDA'], env['CUDA_VISIBLE_DEVICES']) == ('0', '')
    nvcc = make_script(tmp_path / 'nvcc',
                       'echo "#$ TOP=/toolkit/bin/.." >&2')
    env = wheels.compiler_environment(
        dict(os.environ), {**FACTS, 'nvcc': str(nvcc)}, with_cuda=True)
    assert env['CUDA_HOME'] == '/toolkit'
    assert (env['FORCE_CUDA'], env['CUDA_VISIBLE_DEVICES']) == ('1', '0')
    assert env['CPATH'] == os.pathsep.join(['mine', 'torchs/headers'])


def test_uvs_settings_for_offline_work_reach_the_build(wheels, monkeypatch):
    for name in ('PIP_FIND_LINKS', 'PIP_NO_INDEX'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('UV_FIND_LINKS', 'wheels')
    monkeypatch.setenv('UV_OFFLINE', '1')
    env = wheels.compiler_environment(
        dict(os.environ), FACTS, with_cuda=False)
    assert (env['PIP_FIND_LINKS'], env['PIP_NO_INDEX']) == ('wheels', '1')


# The fetching and the building

PYTHON = """
case "$*" in
    "-c "*) echo cp311; exit 0;;
    *"pip download"*)
        while [ "$1" != --dest ]; do shift; done
        mkdir -p "$2"; cp {sdist} "$2"; exit;;
    *"pip wheel"*)
        while [ "$1" != --wheel-dir ]; do shift; done
        out=$2; root=$3; mkdir -p "$out";;
esac
{lines}"""


@pytest.fixture
def build(wheels, tmp_path, monkeypatch):
    """Make mmcv's wheel; the wheel itself is built by a shell's lines."""
    sdist = make_sdist(tmp_path / 'sdist')
    programs = tmp_path / 'programs'
    programs.mkdir()
    make_script(programs / 'ninja', 'echo 1.13')

    def build(lines, sdist=sdist, **changes):
        monkeypatch.setattr(wheels, 'query', lambda *_: {
            **FACTS, 'gpu': False, **changes})
        return wheels.cached_wheel(
            make_script(programs / 'python',
                        PYTHON.format(sdist=sdist, lines=lines)), 'upstream')

    return build


@pytest.fixture
def built(tmp_path):
    return make_wheel(tmp_path / 'mmcv-2.1.0-x.whl')


def folders(tmp_path):
    return [p.name for p in (tmp_path / 'cache' / 'wheels').iterdir()
            if p.is_dir()]


def test_a_built_wheel_is_kept_and_reused(wheels, build, built, tmp_path):
    wheel = build(f'cp {built} "$out"')
    assert wheels.has_ops(wheel)
    assert folders(tmp_path) == [wheel.parent.name]
    assert build('exit 1') == wheel


def test_what_is_built_names_no_standard(build, built):
    build(f'if grep "[-/]std" "$root/setup.py"; then exit 1; fi; '
          f'cp {built} "$out"')


@pytest.mark.parametrize('lines,message', [
    ('echo "[3/9] c++ nms.cpp"; echo error: no luck; exit 1', 'failed'),
    ('cp {whole} "$out"; exit 1', 'failed'),
    ('kill $$', 'was ended by signal 15'),
    ('cp {bare} "$out"', 'without its operators'),
    ("echo \"c++: error: unrecognized command-line option '-std=c++20'\"; "
     'exit 1', 'too old for this torch, which needs C\\+\\+20')])
def test_a_failed_build_shows_its_log_and_leaves_nothing(
        build, built, tmp_path, capsys, lines, message):
    bare = make_wheel(tmp_path / 'bare' / 'mmcv-2.1.0-x.whl', OPS[:1])
    lines = lines.format(whole=built, bare=bare)
    with pytest.raises(Exception, match=message) as raised:
        build(f'echo compiling; {lines}')
    assert '.log' in str(raised.value)
    assert 'compiling' in capsys.readouterr().out
    assert folders(tmp_path) == []


def test_a_source_that_cannot_be_fetched_is_told(build, tmp_path):
    with pytest.raises(Exception, match='cannot be fetched'):
        build('exit 0', sdist=tmp_path / 'no.tar.gz')
    assert folders(tmp_path) == []


def test_a_wheel_spoilt_in_the_cache_is_built_again(wheels, build, built):
    wheel = build(f'cp {built} "$out"')
    wheel.write_bytes(b'half')
    assert wheels.has_ops(build(f'cp {built} "$out"'))


def test_what_a_killed_build_left_is_cleared(build, built, tmp_path):
    name = build(f'cp {built} "$out"').parent.name
    left = tmp_path / 'cache' / 'wheels' / f'.{name}.killed'
    shutil.rmtree(tmp_path / 'cache' / 'wheels' / name)
    left.mkdir()
    build(f'cp {built} "$out"')
    assert folders(tmp_path) == [name]


def test_a_long_build_says_how_far_it_is(wheels, build, built, monkeypatch,
                                         capsys):
    monkeypatch.setattr(wheels, 'HEARTBEAT', .05)
    build(f'echo "[3/9] c++"; sleep 1; cp {built} "$out"')
    assert 'step 3 of 9' in capsys.readouterr().out


@pytest.mark.parametrize('lack,message', [
    (dict(cxx='no-such-compiler'), 'no-such-compiler.*mmcv-lite'),
    (dict(header='no/Python.h'), 'no/Python.h')])
def test_what_a_build_lacks_is_named_before_it(build, lack, message):
    with pytest.raises(Exception, match=message):
        build('exit 1', **lack)


def test_an_environment_without_torch_is_told_so(facts, tmp_path):
    (tmp_path / 'torch.py').write_text('raise ImportError("none here")')
    with pytest.raises(Exception, match='none here.*install torch'):
        facts.query(Path(sys.executable), dict(os.environ,
                                               PYTHONPATH=str(tmp_path)))


def test_cuda_can_be_asked_for_where_no_gpu_is(facts, monkeypatch, tmp_path):
    nvcc = make_script(tmp_path / 'nvcc', 'echo release 13.0, V13.0.88')
    here = {**FACTS, 'gpu': False, 'capability': False, 'nvcc': str(nvcc)}
    assert facts.why_not_cuda(here)
    monkeypatch.setenv('FORCE_CUDA', '1')
    monkeypatch.setenv('TORCH_CUDA_ARCH_LIST', '8.0;9.0+PTX')
    assert facts.why_not_cuda(here) == ''
    assert '-cu130-sm8.0-9.0+PTX-' in facts.key('mmcv', '2.1.0', here, True)
    assert 'CPU only' in facts.why_not_cuda({**here, 'cuda': None})


# The tools of a build

LACKS = """
case "$*" in
    "-c "*) echo cp311; exit 1;;
    *--target*)
        while [ "$1" != --target ]; do shift; done
        mkdir -p "$2/setuptools" "$2/bin"; echo "$@" >> {log};;
esac"""


def test_tools_that_are_lacking_are_kept_apart_from_the_environment(tmp_path):
    import installers
    log = tmp_path / 'log'
    python = make_script(tmp_path / 'python', LACKS.format(log=log))
    for _ in range(2):
        env = installers.build_environment(python)
    folder = tmp_path / 'cache' / 'build_tools' / 'cp311'
    assert env['PYTHONPATH'].split(os.pathsep)[0] == str(folder)
    assert env['PATH'].split(os.pathsep)[0] == str(folder / 'bin')
    assert (folder / 'setuptools').is_dir()
    asked, = log.read_text().splitlines()  # once
    assert 'setuptools<81' in asked


def test_no_python_is_told_so(tmp_path):
    import installers
    with pytest.raises(Exception, match='is no Python'):
        installers.build_environment(tmp_path / 'python')


# The command


def test_the_command_that_mends_is_one_that_there_is(tmp_path):
    for family in FAMILIES:
        command = Commands(sys.executable, has_pip=True).build_mmcv(family)
        done = subprocess.run(f'{command} --help', shell=True, text=True,
                              cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert '--family' in done.stdout


def test_any_other_mmcv_is_uninstalled_first(monkeypatch, tmp_path):
    import build_mmcv
    log = tmp_path / 'log'
    python = make_script(tmp_path / 'python', f'echo "$@" >> {log}')
    wheel = make_wheel(tmp_path / 'mmcv-2.1.0-x.whl')
    monkeypatch.setattr(build_mmcv, 'cached_wheel', lambda *_: wheel)
    monkeypatch.setattr(sys, 'argv', ['x', '--python', str(python)])
    assert build_mmcv.main() == 0
    lines = [line for line in log.read_text().splitlines()
             if 'install' in line]
    assert 'uninstall' in lines[0] and 'mmcv-lite' in lines[0]
    assert lines[1].split()[-1] == str(wheel)


def test_without_a_compiler_it_ends_in_one_line(monkeypatch, capsys,
                                                tmp_path):
    import build_mmcv
    import mmcv_wheel
    monkeypatch.setattr(mmcv_wheel, 'query', lambda *_: {
        **FACTS, 'gpu': False, 'cxx': 'no-such-compiler'})
    monkeypatch.setattr(mmcv_wheel, 'build_environment', lambda _: {})
    monkeypatch.setattr(sys, 'argv', ['x', '--python', sys.executable])
    assert build_mmcv.main() == 1
    line, = capsys.readouterr().err.splitlines()
    assert 'no-such-compiler' in line
