# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Make the project's ``.venv``: what ``make env`` runs.

Needs Python 3.11.5 or newer, and a C++ compiler for building mmcv once. The
environment remembers these choices, so that later calls need not repeat them:

- ``PYTHON``: interpreter to build on (Makefile; default python3)
- ``TORCH``, ``TORCHVISION``: other versions than the lock's
- ``QBHEAT_SYSTEM_TORCH=1``: use the torch and other packages of PYTHON

``QBHEAT_CACHE`` is where built wheels are kept (default ~/.cache/qbheat_mm).
``UV_FIND_LINKS``, ``UV_OFFLINE``, ``PIP_FIND_LINKS`` and ``PIP_NO_INDEX``
replace the registry by a folder of wheels, as usual in uv and pip.
"""
import hashlib
import json
import os
import re
import shutil
import site
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / '.venv'
LOCK = ROOT / 'requirements' / 'lock.txt'
STAMP = 'qbheat_env.json'
CHOICES = ('TORCH', 'TORCHVISION', 'QBHEAT_SYSTEM_TORCH')
# The versions that are kept beside the system's torch.
TOOLBOXES = ('mmengine', 'mmcv', 'mmdet', 'mmpretrain', 'openmim',
             'setuptools')

# At the end, since the package's modules have common names.
sys.path.append(str(ROOT / 'qbheat_mm'))
from build_mmcv import EnvError, cache_dir, locked, run, say  # noqa: E402


def read_stamp(venv: Path) -> dict:
    """Return what the last ``make env`` noted, nothing if there is none."""
    try:
        return json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return {}


def read_choices(stamp: dict) -> dict:
    """Return the variables of :data:`CHOICES`, new or remembered."""
    kept = stamp.get('choices', {})
    choices = {name: os.environ.get(name, kept.get(name, '')).strip()
               for name in CHOICES}
    if choices['QBHEAT_SYSTEM_TORCH'] == '0':
        choices['QBHEAT_SYSTEM_TORCH'] = ''
    if choices['QBHEAT_SYSTEM_TORCH'] and (
            choices['TORCH'] or choices['TORCHVISION']):
        raise EnvError('QBHEAT_SYSTEM_TORCH=1 uses the torch that is there: '
                       'leave out TORCH and TORCHVISION')
    return choices


def read_pins(lock: Path, choices: dict) -> dict:
    """Read the lock as ``{name: version}``, '' for any version."""
    pins = dict(re.findall(r'^([a-z0-9-]+)==(\S+)', lock.read_text(), re.M))
    if choices['QBHEAT_SYSTEM_TORCH']:
        return {name: version if name in TOOLBOXES else ''
                for name, version in pins.items()
                if name not in ('torch', 'torchvision')}
    if choices['TORCH']:  # with the torchvision that belongs to it
        pins.update(torch=choices['TORCH'], torchvision='')
    if choices['TORCHVISION']:
        pins.update(torchvision=choices['TORCHVISION'])
    return pins


def fingerprint(root: Path, venv: Path, choices: dict) -> str:
    """Hash everything that an environment is made from."""
    digest = hashlib.sha256(f'{root}\n{choices}\n'.encode())
    for file in (venv / 'pyvenv.cfg', root / 'setup.py', Path(__file__),
                 root / 'qbheat_mm' / 'build_mmcv.py',
                 *sorted((root / 'requirements').glob('*.txt'))):
        digest.update(file.read_bytes() if file.exists() else b'')
    return digest.hexdigest()


def is_up_to_date(root: Path, venv: Path, choices: dict) -> bool:
    """Whether there is nothing to do; quick, since it imports nothing."""
    if read_stamp(venv).get('fingerprint') != fingerprint(
            root, venv, choices):
        return False
    if not (root / 'qbheat_mm' / '.mim' / 'configs').exists() or not list(
            venv.glob('lib/python*/site-packages/mmcv/_ext.*')):
        return False
    found = {}
    for info in venv.glob('lib/python*/site-packages/*.dist-info'):
        name, _, version = info.name[:-len('.dist-info')].partition('-')
        found[re.sub(r'[-_.]+', '-', name).lower()] = version.split('+')[0]
    pins = {} if choices['QBHEAT_SYSTEM_TORCH'] else read_pins(
        root / 'requirements' / 'lock.txt', choices)
    return ('qbheat-mm' in found
            and not any(name.startswith('onedl-') for name in found)
            and all(name in found and version in ('', found[name])
                    for name, version in pins.items()))


def find_uv() -> list:
    """Return the command of uv, which is installed if need be."""
    own = cache_dir() / 'uv'
    for command in (['uv'], [sys.executable, '-m', 'uv'],
                    [str(own / 'bin' / 'uv')]):
        try:
            subprocess.run([*command, '--version'], capture_output=True,
                           check=True)
            return command
        except (OSError, subprocess.CalledProcessError):
            pass
    say(f'installing uv into {own}')
    shutil.rmtree(own, ignore_errors=True)
    run([sys.executable, '-m', 'venv', own])
    run([own / 'bin' / 'python', '-m', 'pip', 'install', '-q', 'uv'])
    return [str(own / 'bin' / 'uv')]


def check_existing(venv: Path, choices: dict) -> None:
    """Refuse to change what only a new environment can have."""
    again = f'remove {venv} and run make env again'
    if not (venv / 'bin' / 'python').exists():
        raise EnvError(f'{venv} has no working Python: {again}')
    found = re.search(r'^version(?:_info)? *= *(\d+\.\d+)',
                      (venv / 'pyvenv.cfg').read_text(), re.M)
    asked = '%d.%d' % sys.version_info[:2]
    if 'PYTHON' in os.environ and found and found[1] != asked:
        raise EnvError(f'{venv} has Python {found[1]}, PYTHON is {asked}: '
                       f'{again}')
    kept = read_stamp(venv).get('choices', {}).get('QBHEAT_SYSTEM_TORCH', '')
    if choices['QBHEAT_SYSTEM_TORCH'] != kept:
        raise EnvError(f'{venv} was made with QBHEAT_SYSTEM_TORCH={kept!r}: '
                       f'{again}')


def create(venv: Path, choices: dict, uv: list) -> None:
    """Create an empty environment, or one that sees PYTHON's packages."""
    say(f'creating {venv} on Python {sys.version.split()[0]}')
    if not choices['QBHEAT_SYSTEM_TORCH']:
        if sys.version_info < (3, 11, 5):
            raise EnvError(
                'the locked versions need Python 3.11.5 or newer, this is '
                f'{sys.version.split()[0]}: make env PYTHON=python3.12')
        run([*uv, 'venv', '-q', '--python', sys.executable, venv])
        return
    run([sys.executable, '-m', 'venv', venv])
    # --system-site-packages would miss the packages of a PYTHON that is
    # itself in an environment.
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    target = next(venv.glob('lib/python*/site-packages'))
    (target / 'qbheat_system.pth').write_text('\n'.join(folders) + '\n')
    try:
        run([venv / 'bin' / 'python', '-c', 'import torch, torchvision'])
    except EnvError as error:
        raise EnvError(
            f'QBHEAT_SYSTEM_TORCH=1, but {sys.executable} cannot import torch '
            f'and torchvision: remove {venv} and name another PYTHON'
        ) from error


def install(venv: Path, choices: dict, uv: list) -> None:
    """Install the lock, the project (editable), and mmcv."""
    # uv compiles to bytecode only if told to.
    os.environ.setdefault('UV_COMPILE_BYTECODE', '1')
    python = venv / 'bin' / 'python'
    pins = read_pins(LOCK, choices)
    mmcv = pins.pop('mmcv')
    lines = [f'{name}=={version}' if version else name
             for name, version in pins.items()]
    if choices['QBHEAT_SYSTEM_TORCH']:
        # pip sees PYTHON's packages, uv does not. The lock is complete.
        pip, options = [python, '-m', 'pip', 'install', '--no-deps'], []
    else:
        pip = [*uv, 'pip', 'install', '--python', python]
        options = ['--overrides', ROOT / 'requirements' / 'overrides.txt']
    say(f'installing {len(lines)} packages (the first time downloads 3 GB)')
    run([*pip, *options, *lines])
    run([*pip, '--no-deps', '--no-build-isolation', '-e', ROOT])
    run([python, '-m', 'qbheat_mm.build_mmcv', '--family', 'upstream',
         '--mmcv-version', mmcv, '--no-deps'], cwd=venv)


def make() -> None:
    """Make ``.venv``, or bring it up to date."""
    choices = read_choices(read_stamp(VENV))
    if is_up_to_date(ROOT, VENV, choices):
        say('.venv is up to date')
        return
    uv = [] if choices['QBHEAT_SYSTEM_TORCH'] else find_uv()
    if (VENV / 'pyvenv.cfg').exists():
        check_existing(VENV, choices)
    else:
        create(VENV, choices, uv)
    stamp = VENV / STAMP
    stamp.write_text(json.dumps(dict(choices=choices)))
    install(VENV, choices, uv)
    say('checking')
    try:
        run([VENV / 'bin' / 'python', '-m', 'qbheat_mm.check_env'], cwd=VENV)
    except EnvError as error:
        raise EnvError('the environment does not fit: run the commands above,'
                       f' or remove {VENV} and run make env again') from error
    stamp.write_text(json.dumps(dict(
        choices=choices, fingerprint=fingerprint(ROOT, VENV, choices))))
    say(f'{VENV} is ready: source .venv/bin/activate')


def main() -> int:
    """Run, one process per project at a time."""
    name = hashlib.sha256(str(ROOT).encode()).hexdigest()[:16]
    try:
        with locked(cache_dir() / 'locks' / name):
            make()
    except EnvError as error:
        print(f'make env: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
