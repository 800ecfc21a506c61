# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A wheel of mmcv with its compiled operators, built once for a machine.

mmcv is published as source only, and building it takes minutes. So it is
built as a wheel into the user's cache, in a folder whose name holds all
that its binary depends on; every later environment installs it from there.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile
from pathlib import Path

from shell import EnvError, cache_dir, duration, locked, say

HEARTBEAT = 15  # seconds between two lines of a running build
LOG_TAIL = 30  # lines of the log to show when a build fails

# Asked of the environment's own Python, which has torch.
QUERY = """
import glob, json, os, platform, sys, sysconfig
import torch
from torch.utils.cpp_extension import CUDA_HOME
gpu = torch.cuda.is_available()
site = os.path.dirname(os.path.dirname(torch.__file__))
print(json.dumps(dict(
    torch=torch.__version__, cuda=torch.version.cuda, gpu=gpu,
    capability=gpu and '%d%d' % torch.cuda.get_device_capability(),
    nvcc=CUDA_HOME and os.path.join(CUDA_HOME, 'bin', 'nvcc'),
    python='cp%d%d' % sys.version_info[:2], machine=platform.machine(),
    header=os.path.join(sysconfig.get_path('include'), 'Python.h'),
    cxx=os.environ.get('CXX', 'c++'),
    includes=glob.glob(os.path.join(site, 'nvidia', '*', 'include')))))
"""


def has_ops(wheel: Path) -> bool:
    """Whether a wheel holds ``mmcv._ext``.

    mmcv's ``setup.py`` leaves it out without a word where it meets no torch.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False
    return any(re.fullmatch(r'mmcv/_ext\.[^/]*(so|pyd)', n) for n in names)


def query(python: Path) -> dict:
    """Ask an environment what a binary for it depends on."""
    result = subprocess.run([str(python), '-c', QUERY],
                            capture_output=True, text=True)
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ['no message'])[-1]
        raise EnvError(f'{python} cannot import torch: {last}')
    return json.loads(result.stdout.strip().splitlines()[-1])


def why_not_cuda(facts: dict) -> str:
    """The reason to build operators for the CPU only, '' if there is none."""
    if not facts['gpu']:
        return 'torch sees no GPU'
    if not facts['nvcc'] or not os.path.exists(facts['nvcc']):
        return ('a GPU is here, but no nvcc to build for it (install CUDA '
                f'{facts["cuda"]}\'s toolkit, set CUDA_HOME, make env again)')
    text = subprocess.run([facts['nvcc'], '--version'],
                          capture_output=True, text=True).stdout
    release = re.search(r'release (\d+)\.', text)
    if not release or release.group(1) != facts['cuda'].split('.')[0]:
        found = release.group(1) if release else 'unknown'
        return (f'nvcc is of CUDA {found}, torch of CUDA {facts["cuda"]} '
                '(set CUDA_HOME to a fitting toolkit, make env again)')
    return ''


def toolkit(nvcc: str) -> str:
    """The toolkit of an nvcc, which may be a script that calls another."""
    text = subprocess.run(
        [nvcc, '--dryrun', '-x', 'cu', '-c', os.devnull],
        capture_output=True, text=True).stderr
    top = re.search(r'^#\$ TOP=(.+)$', text, re.M)
    return os.path.normpath(top.group(1) if top else f'{nvcc}/../..')


def key(version: str, facts: dict, with_cuda: bool) -> str:
    """Name the folder of a wheel by all that its binary depends on."""
    ops = 'cpu'
    if with_cuda:
        ops = f'cu{facts["cuda"].replace(".", "")}-sm{facts["capability"]}'
    return (f'mmcv-{version}-torch{facts["torch"]}-{facts["python"]}-{ops}-'
            f'{facts["machine"]}')


def cached_wheel(python: Path, version: str) -> Path:
    """Return mmcv's wheel for an environment, built first if need be.

    Args:
        python (Path): The environment's interpreter, with torch and the
            build's needs installed.
        version (str): mmcv's version.

    Raises:
        EnvError: the build failed or came out without operators.
    """
    facts = query(python)
    reason = why_not_cuda(facts)
    say('mmcv: operators for ' + (f'the CPU only: {reason}' if reason else
                                  f'CPU and CUDA {facts["cuda"]}'))
    name = key(version, facts, with_cuda=not reason)
    folder = cache_dir() / 'wheels' / name
    with locked(folder.with_name(f'{name}.lock'), 'building this mmcv'):
        wheels = [w for w in sorted(folder.glob('mmcv-*.whl')) if has_ops(w)]
        if wheels:
            say(f'mmcv: reusing {wheels[0]}')
            return wheels[0]
        check_compiler(facts)
        return build(python, version, folder,
                     build_environment(facts, with_cuda=not reason))


def check_compiler(facts: dict) -> None:
    if not shutil.which(facts['cxx'].split()[0]):
        raise EnvError(
            f'building mmcv needs a C++ compiler, and {facts["cxx"]} is not '
            'there: install one (Debian: g++) or set CXX')
    if not os.path.exists(facts['header']):
        raise EnvError(
            f'building mmcv needs Python\'s headers, and {facts["header"]} '
            'is not there: install them (Debian: python3-dev)')


def build(python: Path, version: str, folder: Path, env: dict) -> Path:
    """Build the wheel beside ``folder``, then move it there in one step."""
    log = cache_dir() / 'logs' / f'{folder.name}.log'
    log.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f'.{folder.name}.*'):
        shutil.rmtree(left, ignore_errors=True)  # of a killed build
    work = Path(tempfile.mkdtemp(prefix=f'.{folder.name}.',
                                 dir=folder.parent))
    try:
        out = work / 'out'
        command = [str(python), '-m', 'pip', 'wheel', '-v', '--no-deps',
                   '--no-build-isolation', '--no-cache-dir',
                   '--wheel-dir', str(out), f'mmcv=={version}']
        say('mmcv: building the operators from source, once for this machine:'
            ' 5 to 15 minutes on 2 cores, shorter on more')
        say(f'mmcv: the compiler\'s words go to {log}')
        code = watch(command, log, dict(env, TMPDIR=str(work)))
        wheels = list(out.glob('mmcv-*.whl'))
        if code != 0 or not wheels:
            fail(log, f'the build of mmcv {version} failed')
        if not has_ops(wheels[0]):
            fail(log, f'mmcv {version} was built without its operators')
        shutil.rmtree(folder, ignore_errors=True)
        out.rename(folder)
        return folder / wheels[0].name
    finally:
        shutil.rmtree(work, ignore_errors=True)


def build_environment(facts: dict, with_cuda: bool) -> dict:
    """The build's environment; uv's settings for offline work reach pip."""
    env = dict(os.environ, MMCV_WITH_OPS='1',
               FORCE_CUDA='1' if with_cuda else '0')
    if with_cuda:
        env.setdefault('CUDA_HOME', toolkit(facts['nvcc']))
        # A toolkit may be nvcc alone: torch's own packages have the headers
        # of the libraries, which its headers include.
        paths = [env.get('CPATH', ''), *facts['includes']]
        env['CPATH'] = os.pathsep.join(filter(None, paths))
    else:
        env['CUDA_VISIBLE_DEVICES'] = ''
    if env.get('UV_FIND_LINKS'):
        env.setdefault('PIP_FIND_LINKS', env['UV_FIND_LINKS'])
    if env.get('UV_OFFLINE') or env.get('UV_NO_INDEX'):
        env.setdefault('PIP_NO_INDEX', '1')
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    jobs = max(1, min(os.cpu_count() or 1, int(memory // 2)))
    env.setdefault('MAX_JOBS', str(jobs))  # a compiler takes up to 2 GB
    return env


def watch(command: list, log: Path, env: dict) -> int:
    """Run a build and say that it goes on; return its exit status."""
    start = time.monotonic()
    with open(log, 'wb') as file:
        process = subprocess.Popen(command, stdout=file, env=env,
                                   stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            while True:
                try:
                    return process.wait(timeout=HEARTBEAT)
                except subprocess.TimeoutExpired:
                    spent = duration(time.monotonic() - start)
                    say(f'mmcv: building for {spent}, {last_step(log)}')
        finally:
            if process.poll() is None:  # interrupted: end the compilers too
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()


def last_step(log: Path) -> str:
    """Read ninja's latest ``[done/all]`` off a log."""
    steps = re.findall(rb'\[(\d+)/(\d+)\]', log.read_bytes())
    if not steps:
        return 'preparing'
    return f'step {int(steps[-1][0])} of {int(steps[-1][1])}'


def fail(log: Path, message: str) -> None:
    lines = log.read_text(errors='replace').splitlines()[-LOG_TAIL:]
    print('\n'.join(lines), flush=True)
    raise EnvError(f'{message}; above is the end of {log}')
