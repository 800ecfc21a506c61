# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Make the project's ``.venv``: what ``make env`` runs.

Needs Python alone (3.11 or newer, its ``venv``) and a C++ compiler for the
one build of mmcv. Chosen by environment variables, kept by the environment:

- ``PYTHON``: the interpreter to build on (of the Makefile; default python3)
- ``TORCH``, ``TORCHVISION``: other versions than the lock's
- ``QBHEAT_SYSTEM_TORCH=1``: use the torch, and all else, that PYTHON has
- ``QBHEAT_CACHE``: where built wheels are kept (default ~/.cache/qbheat_mm)
- ``CUDA_VISIBLE_DEVICES=``: build mmcv's operators for the CPU only
- ``UV_FIND_LINKS``, ``UV_OFFLINE``, ``PIP_FIND_LINKS``, ``PIP_NO_INDEX``:
  a folder of wheels instead of a registry, as uv and pip read them
"""
import hashlib
import os
import re
import signal
import site
import sys
from pathlib import Path

from installers import find_uv
from mmcv_wheel import cached_wheel
from settings import (
    Settings,
    fingerprint,
    is_up_to_date,
    read_stamp,
    write_stamp,
)
from shell import EnvError, cache_dir, end_in_order, locked, run, say

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / '.venv'
PYTHON = VENV / 'bin' / 'python'


def venv_python_version() -> str:
    """The ``X.Y`` of an existing environment."""
    text = (VENV / 'pyvenv.cfg').read_text()
    match = re.search(r'^version(?:_info)? *= *(\d+\.\d+)', text, re.M)
    return match.group(1) if match else ''


def check_existing(settings: Settings) -> None:
    """Refuse to mend what only a new environment can."""
    stamp = read_stamp(VENV)
    again = f'remove {VENV} and make it again'
    if not PYTHON.exists():
        raise EnvError(f'{PYTHON} is not there or links to nothing: {again}')
    asked = '.'.join(map(str, sys.version_info[:2]))
    if 'PYTHON' in os.environ and asked != venv_python_version():
        raise EnvError(f'.venv is of Python {venv_python_version()}, PYTHON '
                       f'is {asked}: {again}')
    kept = stamp.get('settings', {}).get('system_torch', '')
    if settings.system_torch != kept:
        raise EnvError(
            f'.venv was made with QBHEAT_SYSTEM_TORCH={kept!r}, now it is '
            f'{settings.system_torch!r}: {again}')


def create(settings: Settings, uv: list) -> None:
    say(f'creating {VENV} on Python {sys.version.split()[0]}')
    if settings.system_torch != '1':
        if sys.version_info < (3, 11):
            raise EnvError(
                'the locked versions need Python 3.11 or newer, this is '
                f'{sys.version.split()[0]}: make env PYTHON=python3.12')
        run([*uv, 'venv', '-q', '--python', sys.executable, str(VENV)])
        return
    run([sys.executable, '-m', 'venv', str(VENV)])
    # --system-site-packages would miss the packages of a PYTHON that lives in
    # an environment itself, so its folders are named.
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    target = next(VENV.glob('lib/python*/site-packages'))
    (target / 'qbheat_system.pth').write_text('\n'.join(folders) + '\n')
    try:
        run([str(PYTHON), '-c', 'import torch, torchvision'])
    except EnvError as error:
        raise EnvError(
            f'QBHEAT_SYSTEM_TORCH=1, but {sys.executable} cannot import torch '
            f'and torchvision: name another PYTHON, after removing {VENV}'
        ) from error


def install(settings: Settings, uv: list) -> None:
    """Install the lock, mmcv's wheel and, editable, the project.

    uv compiles to bytecode only when told to, and where Python may not
    write it (PYTHONDONTWRITEBYTECODE) every start would do so anew.
    """
    os.environ.setdefault('UV_COMPILE_BYTECODE', '1')
    pins = settings.pins(ROOT / 'requirements' / 'lock.txt')
    lines = [f'{name}=={version}' if version else name
             for name, version in pins.items() if name != 'mmcv']
    if settings.system_torch == '1':
        # pip sees what PYTHON has, uv does not. The lock is complete.
        installer = [str(PYTHON), '-m', 'pip', 'install', '--no-deps']
        extra, again = [], ['--force-reinstall']  # or pip sees the version
    else:
        installer = [*uv, 'pip', 'install', '--python', str(PYTHON)]
        extra = ['--overrides', str(ROOT / 'requirements' / 'overrides.txt')]
        again = []  # uv sees whether it is this very wheel
    say(f'installing {len(lines)} locked packages (a first time downloads '
        'up to 3 GB)')
    run([*installer, *extra, *lines])
    wheel = cached_wheel(PYTHON, 'upstream', pins['mmcv'])
    say('installing mmcv and, editable, the project')
    run([*installer, '--no-deps', *again, str(wheel)])
    run([*installer, '--no-deps', '--no-build-isolation', '-e', str(ROOT)])


def make() -> None:
    settings = Settings.read(read_stamp(VENV))
    if is_up_to_date(ROOT, VENV, settings):
        say('.venv is up to date')
        return
    uv = [] if settings.system_torch == '1' else find_uv()
    if (VENV / 'pyvenv.cfg').exists():
        check_existing(settings)
    else:
        create(settings, uv)
    write_stamp(VENV, settings, fingerprint='')
    install(settings, uv)
    say('checking')
    try:
        run([str(PYTHON), '-m', 'qbheat_mm.check_env'], cwd=VENV)
    except EnvError as error:
        raise EnvError('the environment does not fit: follow the commands '
                       f'above, or remove {VENV} and make it again'
                       ) from error
    write_stamp(VENV, settings, fingerprint(ROOT, VENV, settings))
    say(f'{VENV} is ready: source .venv/bin/activate')


def main() -> int:
    signal.signal(signal.SIGTERM, end_in_order)
    name = hashlib.sha256(str(ROOT).encode()).hexdigest()[:16]
    try:
        with locked(cache_dir() / 'locks' / name, 'making this .venv'):
            make()
    except EnvError as error:
        print(f'make env: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(main())
