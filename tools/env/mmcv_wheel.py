# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A wheel of mmcv with its compiled operators, built once for a machine.

mmcv is published as source only, and building it takes minutes. So it is
built as a wheel into the user's cache, in a folder whose name holds all
that its binary depends on; every later environment installs it from there.
"""
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from installers import build_environment, prepend
from mmcv_facts import check_compiler, key, query, toolkit, why_not_cuda
from mmcv_source import (
    MMCV,
    download_command,
    leave_standard_to_torch,
    unpack,
)
from shell import EnvError, cache_dir, duration, locked, say

HERE = Path(__file__).resolve().parent
HEARTBEAT = 15  # seconds between two lines of a running build
LOG_TAIL = 30  # lines of the log to show when a build fails

# What compilers say to a standard that is newer than they are.
TOO_OLD = re.compile(r'(unrecogni[sz]ed|invalid|unknown|not defined)'
                     r'[^\n]*std=c\+\+(\d+)', re.I)


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


def cached_wheel(python: Path, family: str, version: str = '') -> Path:
    """Return mmcv's wheel for an environment, built first if need be.

    Args:
        python (Path): The environment's interpreter, with torch installed.
        family (str): 'upstream' or 'onedl', whose mmcv it is to be; '' for
            the one of which the environment holds packages.
        version (str): mmcv's version, '' for the one that was tried.

    Raises:
        EnvError: the build failed or came out without operators.
    """
    env = build_environment(python)
    facts = query(python, env)
    name, tried = MMCV[family or ('onedl' if facts['onedl'] else 'upstream')]
    version = version or tried
    reason = why_not_cuda(facts)
    say(f'{name} {version} for torch {facts["torch"]}, operators for ' +
        (f'the CPU only: {reason}' if reason else
         f'CPU and CUDA {facts["cuda"]}'))
    folder = cache_dir() / 'wheels' / key(name, version, facts, not reason)
    with locked(folder.with_name(f'{folder.name}.lock'),
                'building this mmcv'):
        wheels = [w for w in sorted(folder.glob('*.whl')) if has_ops(w)]
        if wheels:
            say(f'mmcv: reusing {wheels[0]}')
            return wheels[0]
        check_compiler(facts)
        return build(python, name, version, folder,
                     compiler_environment(env, facts, with_cuda=not reason))


def build(python: Path, name: str, version: str, folder: Path,
          env: dict) -> Path:
    """Build the wheel beside ``folder``, then move it there in one step."""
    log = cache_dir() / 'logs' / f'{folder.name}.log'
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    for left in folder.parent.glob(f'.{folder.name}.*'):
        shutil.rmtree(left, ignore_errors=True)  # of a killed build
    work = Path(tempfile.mkdtemp(prefix=f'.{folder.name}.',
                                 dir=folder.parent))
    env = dict(env, TMPDIR=str(work))
    try:
        keep_locals(env, work)
        if watch(download_command(python, name, version, work / 'source'),
                 log, env) != 0:
            fail(log, f'the source of {name} {version} cannot be fetched')
        root = unpack(work / 'source')
        leave_standard_to_torch(root)
        env = parse_headers_once(env, work)
        wheel = compile_wheel(python, root, work / 'out', log, env)
        shutil.rmtree(folder, ignore_errors=True)
        wheel.parent.rename(folder)
        return folder / wheel.name
    finally:
        shutil.rmtree(work, ignore_errors=True)


def compile_wheel(python: Path, root: Path, out: Path, log: Path,
                  env: dict) -> Path:
    """Build the source tree ``root`` into the one wheel of ``out``."""
    say('mmcv: building the operators from source, once for this machine:'
        ' minutes, the fewer the more cores are free')
    say(f'mmcv: the compiler\'s words go to {log}')
    code = watch([str(python), '-m', 'pip', 'wheel', '-v', '--no-deps',
                  '--no-build-isolation', '--no-cache-dir',
                  '--wheel-dir', str(out), str(root)], log, env)
    wheels = list(out.glob('*.whl'))
    if code != 0 or not wheels:
        old = TOO_OLD.search(log.read_text(errors='replace'))
        ended = f'was ended by signal {-code}' if code < 0 else 'failed'
        fail(log, f'the build of {root.name} {ended}' + (
            f': the compiler is too old for this torch, which needs C++'
            f'{old.group(2)} (install a newer one, set CXX)' if old else ''))
    if not has_ops(wheels[0]):
        fail(log, f'{root.name} was built without its operators')
    return wheels[0]


def compiler_environment(env: dict, facts: dict, with_cuda: bool) -> dict:
    """Add to a build's environment what its compilers go by.

    uv's settings for offline work reach pip.
    """
    env = dict(env, MMCV_WITH_OPS='1', FORCE_CUDA='1' if with_cuda else '0')
    # Debugging symbols, which Python's own flags ask for, are not.
    env['CFLAGS'] = ' '.join(filter(None, ('-g0', env.get('CFLAGS'))))
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


def keep_locals(env: dict, work: Path) -> None:
    """Let the Pythons of a build begin with ``locals_of_exec.py``."""
    site = work / 'site'
    site.mkdir()
    shutil.copy(HERE / 'locals_of_exec.py', site / 'sitecustomize.py')
    prepend(env, 'PYTHONPATH', site)


def parse_headers_once(env: dict, work: Path) -> dict:
    """Put ``parse_once.py`` before the C++ compiler."""
    script = work / 'c++'
    if re.search(r'\s', str(script)):  # as a compiler's name it would split
        return env
    command = (sys.executable, '-IS', str(HERE / 'parse_once.py'))
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    script.chmod(0o755)
    headers = work / 'headers'
    headers.mkdir()
    return dict(env, CXX=str(script), QBHEAT_HEADERS=str(headers),
                QBHEAT_CXX=env.get('CXX', 'c++'))


def watch(command: list, log: Path, env: dict) -> int:
    """Run a command and say that it goes on; return its exit status."""
    start = time.monotonic()
    with open(log, 'ab') as file:
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
