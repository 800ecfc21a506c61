# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Build mmcv with its compiled operators and install it.

    python -m qbheat_mm.build_mmcv [--family onedl]

mmcv is published as source only, and its binary fits a single torch. It is
built for the torch of the running interpreter, once per machine: the wheel
stays in QBHEAT_CACHE (default ~/.cache/qbheat_mm). CUDA operators need nvcc
and a GPU, or FORCE_CUDA=1. Standard library and torch only, since this must
run where the toolboxes are missing.
"""
import argparse
import contextlib
import fcntl
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from pathlib import Path

# Distribution and tested version by family.
MMCV = dict(upstream=('mmcv', '2.1.0'), onedl=('onedl-mmcv', '2.3.6'))
# All of these install the module mmcv and overwrite each other's files.
SAME_MODULE = ('mmcv', 'mmcv-lite', 'mmcv-full', 'onedl-mmcv')
# mmcv's setup.py names C++17, but torch's headers demand C++20 since 2.14.
# Where none is named, torch adds the one that its headers need.
STANDARD = re.compile(r"""(['"])[-/]std[=:][^'"]*\1\s*,?""")
# mmcv's setup.py expects exec() to create local variables, which ended with
# Python 3.13 (PEP 667). This runs as sitecustomize in the build.
LEGACY_EXEC = """
import builtins, sys
_exec = builtins.exec
def _legacy(source, globals=None, locals=None, /, **kwargs):
    if globals is None:
        frame = sys._getframe(1)
        globals, locals = frame.f_globals, locals or frame.f_locals
    return _exec(source, globals, locals, **kwargs)
if sys.version_info >= (3, 13):
    builtins.exec = _legacy
"""
HEARTBEAT = 15  # seconds between progress messages
START = time.monotonic()


class EnvError(Exception):
    """A problem with the environment, in one line."""


def say(text: str) -> None:
    """Print a message after the minutes and seconds since the start."""
    seconds = int(time.monotonic() - START)
    print(f'[env {seconds // 60}:{seconds % 60:02d}] {text}', flush=True)


def run(command: list, **kwargs) -> None:
    """Run a command.

    Raises:
        EnvError: It cannot be started or fails.
    """
    command = list(map(str, command))
    try:
        code = subprocess.call(command, **kwargs)
    except OSError as error:
        raise EnvError(f'cannot run {command[0]}: {error}') from error
    if code != 0:
        raise EnvError(f'exit status {code} from: {" ".join(command)}')


def cache_dir() -> Path:
    """Return ``QBHEAT_CACHE`` or ``~/.cache/qbheat_mm``."""
    default = Path.home() / '.cache' / 'qbheat_mm'
    return Path(os.environ.get('QBHEAT_CACHE') or default).absolute()


@contextlib.contextmanager
def locked(path: Path):
    """Hold a lock file, waiting for other processes that hold it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'w') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f'waiting for another process ({path})')
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def import_torch():
    """Import torch, for which mmcv is built."""
    try:
        import torch
    except Exception as error:
        raise EnvError(
            f'{sys.executable} cannot import torch ({error}): install torch '
            'and torchvision first') from error
    return torch


def installed_family() -> str:
    """Return the family that has packages here, upstream if none has."""
    names = (d.metadata['Name'] or '' for d in
             importlib.metadata.distributions())
    return ('onedl' if any(name.startswith('onedl-') for name in names)
            else 'upstream')


def find_nvcc() -> str:
    """Return the nvcc that torch would call, '' if there is none."""
    from torch.utils.cpp_extension import CUDA_HOME
    nvcc = os.path.join(CUDA_HOME or '', 'bin', 'nvcc')
    return nvcc if os.path.exists(nvcc) else ''


def why_not_cuda(torch) -> str:
    """Say why only CPU operators can be built, '' if CUDA's can."""
    cuda = torch.version.cuda
    if not torch.cuda.is_available() and os.environ.get('FORCE_CUDA') != '1':
        return 'torch sees no GPU'
    if not cuda:
        return 'this torch is a CPU build'
    nvcc = find_nvcc()
    if not nvcc:
        return (f'there is no nvcc: install the toolkit of CUDA {cuda}, set '
                'CUDA_HOME, and run this again')
    text = subprocess.run([nvcc, '--version'], capture_output=True,
                          text=True).stdout
    found = re.search(r'release (\d+)\.', text)
    if not found or found[1] != cuda.split('.')[0]:
        return (f'nvcc is of CUDA {found[1] if found else "unknown"}, torch '
                f'of CUDA {cuda}: set CUDA_HOME to a fitting toolkit, and '
                'run this again')
    return ''


def key(name: str, version: str, torch, with_cuda: bool) -> str:
    """Name the cached wheel by everything that its binary depends on."""
    ops = 'cpu'
    if with_cuda:
        if os.environ.get('FORCE_CUDA') == '1':
            target = os.environ.get('TORCH_CUDA_ARCH_LIST') or 'all'
        else:
            target = '%d%d' % torch.cuda.get_device_capability()
        target = re.sub(r'[^0-9A-Za-z.+]+', '-', target)
        ops = f'cu{torch.version.cuda.replace(".", "")}-sm{target}'
    python = 'cp%d%d' % sys.version_info[:2]
    return (f'{name}-{version}-torch{torch.__version__}-{python}-{ops}-'
            f'{platform.machine()}')


def has_ops(wheel: Path) -> bool:
    """Whether a wheel holds ``mmcv._ext``, which a build may leave out."""
    try:
        names = zipfile.ZipFile(wheel).namelist()
    except (OSError, zipfile.BadZipFile):
        return False
    return any(re.fullmatch(r'mmcv/_ext\.[^/]*(so|pyd)', n) for n in names)


def check_tools() -> None:
    """Name what the build needs and cannot find."""
    missing = [name for name, module in (
        ('pip', 'pip'), ('setuptools<81', 'pkg_resources'),
        ('wheel', 'wheel'), ('ninja', 'ninja'))
        if importlib.util.find_spec(module) is None]
    if missing:
        raise EnvError('building mmcv needs more packages: pip install ' +
                       ' '.join(f"'{name}'" for name in missing))
    compiler = os.environ.get('CXX', 'c++')
    if not shutil.which(compiler.split()[0]):
        raise EnvError(
            f'building mmcv needs a C++ compiler, and {compiler} is missing: '
            'install one (Debian: apt install g++; conda: gxx_linux-64; '
            'macOS: xcode-select --install) or set CXX. Pre-training and '
            "classification run without, on mmcv-lite (the extra 'pretrain')")
    header = Path(sysconfig.get_path('include'), 'Python.h')
    if not header.exists():
        raise EnvError(f"building mmcv needs Python's headers, and {header} "
                       'is missing (Debian: apt install python3-dev)')


def build_environment(torch, nvcc: str, work: Path) -> dict:
    """Return the environment variables of the build.

    Args:
        torch (module): torch.
        nvcc (str): The CUDA compiler, '' to build for the CPU only.
        work (Path): Folder for temporary files.
    """
    import ninja
    (work / 'sitecustomize.py').write_text(LEGACY_EXEC)
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    env = dict(os.environ, MMCV_WITH_OPS='1', FORCE_CUDA='1' if nvcc else '0',
               TMPDIR=str(work))
    env['CFLAGS'] = f'-g0 {env.get("CFLAGS", "")}'  # no debugging symbols
    # A compiler takes up to 2 GB.
    env.setdefault('MAX_JOBS', str(max(1, min(os.cpu_count() or 1,
                                              int(memory // 2)))))
    if nvcc:
        # nvcc may be a script, and lack the libraries' headers, which torch's
        # own packages bring.
        text = subprocess.run([nvcc, '--dryrun', '-x', 'cu', '-c', os.devnull],
                              capture_output=True, text=True).stderr
        top = re.search(r'^#\$ TOP=(.+)$', text, re.M)
        env.setdefault('CUDA_HOME', os.path.normpath(
            top[1] if top else f'{nvcc}/../..'))
        site = Path(torch.__file__).parents[1]
        for folder in site.glob('nvidia/*/include'):
            prepend(env, 'CPATH', folder)
    else:
        env['CUDA_VISIBLE_DEVICES'] = ''
    prepend(env, 'PATH', ninja.BIN_DIR)
    prepend(env, 'PATH', Path(sys.executable).parent)
    prepend(env, 'PYTHONPATH', work)
    # uv's settings for offline work, for pip.
    if env.get('UV_FIND_LINKS'):
        env.setdefault('PIP_FIND_LINKS', env['UV_FIND_LINKS'])
    if env.get('UV_OFFLINE') or env.get('UV_NO_INDEX'):
        env.setdefault('PIP_NO_INDEX', '1')
    return env


def prepend(env: dict, name: str, folder) -> None:
    """Put a folder in front of a variable such as PATH."""
    env[name] = os.pathsep.join(filter(None, (str(folder), env.get(name))))


def build(name: str, version: str, env: dict, work: Path, log: Path) -> Path:
    """Fetch mmcv's source, patch it, and build a wheel in ``work``.

    Raises:
        EnvError: A step failed, or the wheel has no operators.
    """
    pip = [sys.executable, '-m', 'pip']
    options = ['--no-deps', '--no-build-isolation', '--no-cache-dir']
    watch([*pip, 'download', *options, '--no-binary', ':all:', '--dest', work,
           f'{name}=={version}'], log, env)
    archive, = work.glob('*.tar.gz')
    with tarfile.open(archive) as file:
        safely = hasattr(tarfile, 'data_filter')  # Python 3.10.12 has it
        file.extractall(work, **(dict(filter='data') if safely else {}))
    root = work / archive.name[:-len('.tar.gz')]
    setup = root / 'setup.py'
    setup.write_text(STANDARD.sub('', setup.read_text(encoding='utf-8')),
                     encoding='utf-8')
    say('mmcv: compiling the operators, once for this machine; this takes '
        f'minutes (log: {log})')
    watch([*pip, 'wheel', '-v', *options, '--wheel-dir', work / 'out', root],
          log, env)
    wheel, = (work / 'out').glob('*.whl')
    if not has_ops(wheel):
        raise EnvError(f'{name} was built without its operators: see {log}')
    return wheel


def watch(command: list, log: Path, env: dict) -> None:
    """Run a command with its output in ``log``, and report progress.

    Raises:
        EnvError: It failed; the end of its output has been printed.
    """
    with open(log, 'ab') as file:
        process = subprocess.Popen(list(map(str, command)), stdout=file,
                                   stderr=subprocess.STDOUT, env=env)
    while True:
        try:
            code = process.wait(timeout=HEARTBEAT)
            break
        except subprocess.TimeoutExpired:
            steps = re.findall(rb'\[\d+/\d+\]', log.read_bytes())
            say('mmcv: building, step '
                f'{steps[-1].decode() if steps else "0"}')
        except BaseException:
            process.terminate()
            raise
    if code != 0:
        lines = log.read_text(errors='replace').splitlines()[-30:]
        print('\n'.join(lines), flush=True)
        raise EnvError(f'building mmcv failed (exit status {code}): above is '
                       f'the end of {log}')


def cached_wheel(family: str = '', version: str = '') -> Path:
    """Return mmcv's wheel for this interpreter, building it if need be.

    Args:
        family (str): 'upstream' or 'onedl', '' for the installed one.
        version (str): mmcv's version, '' for the tested one.

    Raises:
        EnvError: The wheel cannot be built.
    """
    torch = import_torch()
    name, tested = MMCV[family or installed_family()]
    version = version or tested
    reason = why_not_cuda(torch)
    ops = f'the CPU only ({reason})' if reason else 'CPU and CUDA'
    say(f'{name} {version} for torch {torch.__version__}, operators for {ops}')
    folder = cache_dir() / 'wheels' / key(name, version, torch, not reason)
    with locked(folder.with_name(f'{folder.name}.lock')):
        for wheel in sorted(folder.glob('*.whl')):
            if has_ops(wheel):
                say(f'mmcv: reusing {wheel}')
                return wheel
        check_tools()
        log = cache_dir() / 'logs' / f'{folder.name}.log'
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        work = folder.with_name(f'.{folder.name}')
        shutil.rmtree(work, ignore_errors=True)  # of an interrupted build
        work.mkdir()
        env = build_environment(torch, '' if reason else find_nvcc(), work)
        wheel = build(name, version, env, work, log)
        shutil.rmtree(folder, ignore_errors=True)
        wheel.parent.rename(folder)
        shutil.rmtree(work)
        return folder / wheel.name


def install(wheel: Path, with_deps: bool) -> None:
    """Install a wheel in place of any other mmcv."""
    pip = [sys.executable, '-m', 'pip']
    run([*pip, 'uninstall', '-q', '-y', *SAME_MODULE])
    run([*pip, 'install', '-q', '--no-deps', '--force-reinstall', wheel])
    if with_deps:
        run([*pip, 'install', '-q', wheel])


def main() -> int:
    """Build and install."""
    parser = argparse.ArgumentParser(
        prog='python -m qbheat_mm.build_mmcv',
        description=__doc__.splitlines()[0])
    parser.add_argument('--family', choices=sorted(MMCV), default='',
                        help='defaults to the installed one, else upstream')
    parser.add_argument('--mmcv-version', default='', metavar='VERSION',
                        help='defaults to the tested one')
    parser.add_argument('--no-install', action='store_true',
                        help='only build, and print the path of the wheel')
    parser.add_argument('--no-deps', action='store_true',
                        help="do not install mmcv's dependencies")
    args = parser.parse_args()
    try:
        wheel = cached_wheel(args.family, args.mmcv_version)
        if args.no_install:
            print(wheel)
        else:
            install(wheel, not args.no_deps)
    except EnvError as error:
        print(f'build_mmcv: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
