# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Build mmcv with its compiled operators and install it.

    python -m qbheat_mm.build_mmcv [--family onedl]

mmcv is published as source only, and a binary fits a single torch. Each
wheel is built once and kept in QBHEAT_CACHE (default ~/.cache/qbheat_mm).
CUDA operators need nvcc and a GPU, or FORCE_CUDA=1. Needs only the standard
library and torch: this runs before the toolboxes are installed.
"""
import argparse
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from .check_env import FAMILIES, find_family, installed

# These install the module mmcv and overwrite each other's files.
SAME_MODULE = ['mmcv-full', *(parts['mmcv'][0] for parts in FAMILIES.values())]
PIP = [sys.executable, '-m', 'pip']
PIP_OPTIONS = ['--no-deps', '--no-build-isolation', '--no-cache-dir']

#: A build backend (PEP 517) that only returns a name and a version.
METADATA = """
import pathlib

class __legacy__:
    @staticmethod
    def prepare_metadata_for_build_wheel(folder, settings=None):
        info = pathlib.Path(folder, 'mmcv.dist-info')
        info.mkdir()
        (info / 'METADATA').write_text(
            'Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n')
        return info.name
"""


def run(*command, **kwargs) -> None:
    """Run a command; exit with its name if it fails."""
    command = list(map(str, command))
    code = subprocess.call(command, **kwargs)
    if code != 0:
        sys.exit(f'error: exit status {code} from {" ".join(command)}')


def find_nvcc() -> str:
    """Return the nvcc that torch would call, '' if there is none."""
    from torch.utils.cpp_extension import CUDA_HOME
    nvcc = os.path.join(CUDA_HOME or '', 'bin', 'nvcc')
    return nvcc if os.path.exists(nvcc) else ''


def why_not_cuda(torch) -> str:
    """Return why only CPU operators can be built, '' if CUDA's can."""
    cuda, nvcc = torch.version.cuda, find_nvcc()
    if not torch.cuda.is_available() and os.environ.get('FORCE_CUDA') != '1':
        return 'torch sees no GPU'
    if not cuda:
        return 'this torch is a CPU build'
    text = ''
    if nvcc:
        text = subprocess.run([nvcc, '--version'], capture_output=True,
                              text=True).stdout
    if f'release {cuda.split(".")[0]}.' not in text:
        return (f'nvcc of CUDA {cuda} is missing, found {nvcc or "none"}: '
                'set CUDA_HOME to its toolkit and run this again')
    return ''


def cache_key(name: str, version: str, torch, with_cuda: bool) -> str:
    """Name a wheel by everything that its binary depends on."""
    ops = 'cpu'
    if with_cuda:
        if os.environ.get('FORCE_CUDA') == '1':
            target = os.environ.get('TORCH_CUDA_ARCH_LIST') or 'all'
        else:
            target = '{}{}'.format(*torch.cuda.get_device_capability())
        target = re.sub(r'[^0-9A-Za-z.+]+', '-', target)
        ops = f'cu{torch.version.cuda.replace(".", "")}-sm{target}'
    python = 'cp{}{}'.format(*sys.version_info)
    return (f'{name}-{version}-torch{torch.__version__}-{python}-{ops}-'
            f'{platform.machine()}')


def check_tools() -> None:
    """Exit if the build lacks a tool, naming it."""
    compiler = os.environ.get('CXX', 'c++').split()[0]
    headers = Path(sysconfig.get_path('include'), 'Python.h')
    missing = []
    for module, package in (('pkg_resources', "'setuptools<81'"),
                            ('wheel', 'wheel'), ('ninja', 'ninja')):
        if not importlib.util.find_spec(module):
            missing.append(f'{package} (pip)')
    if not shutil.which(compiler):
        missing.append(f'the C++ compiler {compiler} (Debian: apt install '
                       'g++; macOS: xcode-select --install)')
    if not headers.exists():
        missing.append(f'{headers} (Debian: apt install python3-dev)')
    if missing:
        sys.exit(f'error: building mmcv needs {", ".join(missing)}. The extra '
                 "'pretrain' needs no build: everything except detection")


def build_environment(torch, nvcc: str) -> dict:
    """Return the environment of the build, with ``nvcc=''`` for the CPU."""
    import ninja
    env = dict(os.environ, MMCV_WITH_OPS='1', FORCE_CUDA='1' if nvcc else '0')
    # A compiler takes up to 2 GB.
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') >> 31
    env.setdefault('MAX_JOBS', str(max(1, min(os.cpu_count() or 1, memory))))
    env['CFLAGS'] = f'-g0 {env.get("CFLAGS", "")}'  # no debugging symbols
    if nvcc:
        # A toolkit may lack the headers that torch's packages bring.
        headers = Path(torch.__file__).parents[1].glob('nvidia/*/include')
        env['CPATH'] = os.pathsep.join(
            [*map(str, headers), env.get('CPATH', '')])
    else:
        env['CUDA_VISIBLE_DEVICES'] = ''
    env['PATH'] = os.pathsep.join([os.path.dirname(sys.executable),
                                   ninja.BIN_DIR, env.get('PATH', '')])
    return env


def patch(setup: str) -> str:
    """Adapt mmcv's ``setup.py`` to newer versions of torch and Python."""
    # It sets C++17; torch 2.14 demands C++20 and sets it if nothing else does.
    setup = re.sub(r"""(['"])[-/]std[=:][^'"]*\1\s*,?""", '', setup)
    # exec() creates no local variables since Python 3.13.
    setup = setup.replace("version_file, 'exec'))",
                          "version_file, 'exec'), globals())")
    return setup.replace("return locals()['__version__']",
                         "return globals()['__version__']")


def download(name: str, version: str, work: Path) -> Path:
    """Download mmcv's source and unpack it in ``work``.

    pip asks setuptools for a source's metadata, and mmcv's ``setup.py`` fails
    there on Python 3.13. So a stand-in for setuptools answers.
    """
    backend = work / 'backend' / 'setuptools'
    backend.mkdir(parents=True)
    (backend / '__init__.py').touch()
    (backend / 'build_meta.py').write_text(METADATA % (name, version),
                                           encoding='utf-8')
    run(*PIP, 'download', *PIP_OPTIONS, '--no-binary', ':all:', '--dest', work,
        f'{name}=={version}',
        env=dict(os.environ, PYTHONPATH=str(backend.parent),
                 PIP_USE_PEP517='1'))  # the default since pip 25.3
    archive, = work.glob('*.tar.gz')
    shutil.unpack_archive(archive, work)
    return work / archive.name.removesuffix('.tar.gz')


def build(name: str, version: str, env: dict, folder: Path) -> Path:
    """Download mmcv's source, patch it and build its wheel in ``folder``.

    The folder appears when the wheel is complete.
    """
    work = folder.with_name(f'.{folder.name}.{os.getpid()}')
    try:
        work.mkdir(parents=True)
    except OSError as error:
        sys.exit(f'error: cannot write the built mmcv ({error}): set '
                 'QBHEAT_CACHE to a writable folder')
    try:
        source = download(name, version, work)
        setup = source / 'setup.py'
        setup.write_text(patch(setup.read_text(encoding='utf-8')),
                         encoding='utf-8')
        print('compiling mmcv, once for this torch; this takes minutes',
              flush=True)
        run(*PIP, 'wheel', '-v', *PIP_OPTIONS, '--wheel-dir', work / 'out',
            source, env=env)
        wheel, = (work / 'out').glob('*.whl')
        if wheel.name.endswith('none-any.whl'):
            sys.exit(f'error: {name} was built without its operators')
        wheel.parent.rename(folder)
        return folder / wheel.name
    finally:
        shutil.rmtree(work)


def cached_wheel(family: str = '') -> Path:
    """Return mmcv's wheel for this interpreter, building it if necessary."""
    try:
        import torch
    except Exception as error:  # a broken binary may raise anything
        sys.exit(f'error: {sys.executable} cannot import torch ({error}): '
                 'install torch and torchvision first')
    family = family or find_family(installed())
    name, supported = FAMILIES[family.replace('lite', 'upstream')]['mmcv']
    version = supported.removeprefix('>=').split(',')[0]
    reason = why_not_cuda(torch)
    ops = f'CPU operators only ({reason})' if reason else 'CUDA operators'
    print(f'{name} {version} for torch {torch.__version__}: {ops}', flush=True)
    cache = Path(os.environ.get('QBHEAT_CACHE') or '~/.cache/qbheat_mm')
    folder = cache.expanduser().absolute() / 'wheels' / cache_key(
        name, version, torch, not reason)
    for wheel in folder.glob('*.whl'):
        print(f'using {wheel}', flush=True)
        return wheel
    check_tools()
    env = build_environment(torch, '' if reason else find_nvcc())
    return build(name, version, env, folder)


def main() -> None:
    """Build and install."""
    parser = argparse.ArgumentParser(
        prog='python -m qbheat_mm.build_mmcv',
        description=__doc__.splitlines()[0])
    parser.add_argument('--family', choices=['upstream', 'onedl'], default='',
                        help='defaults to the installed one, or upstream')
    wheel = cached_wheel(parser.parse_args().family)
    run(*PIP, 'uninstall', '-qq', '-y', *SAME_MODULE)
    run(*PIP, 'install', '-q', '--no-deps', wheel)  # the extras bring them


if __name__ == '__main__':
    main()
