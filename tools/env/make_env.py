# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Create the project's ``.venv`` or update it: ``make env``.

Needs Python 3.10 to 3.13 on Linux, and a C++ compiler to build mmcv once.
``TORCH=2.11.0`` and ``TORCHVISION=0.26.0`` override the locked versions;
later calls remember them. ``VENV`` sets the folder.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / os.environ.get('VENV', '.venv')
REQUIREMENTS = ROOT / 'requirements'


def wanted_state(before: dict) -> dict:
    """Return the requested versions and a hash of what installs them."""
    digest = hashlib.sha256(str(ROOT).encode())
    for file in (Path(__file__), ROOT / 'setup.py',
                 ROOT / 'qbheat_mm/build_mmcv.py',
                 ROOT / 'qbheat_mm/check_env.py',
                 *sorted(REQUIREMENTS.glob('*.txt'))):
        digest.update(file.read_bytes())
    return {**{name: os.environ.get(name, before.get(name, ''))
               for name in ('TORCH', 'TORCHVISION')},
            'files': digest.hexdigest()}


def locked(lock: str, wanted: dict) -> str:
    """Return the lock, with the requested torch and torchvision if any."""
    if not wanted['TORCH'] and not wanted['TORCHVISION']:
        return lock
    lock = re.sub(r'^torch(vision)?==.*\n', '', lock, flags=re.M)
    for name in ('torch', 'torchvision'):  # uv finds one that fits the other
        version = wanted[name.upper()]
        lock += f'{name}=={version}\n' if version else f'{name}\n'
    return lock


def check_python() -> None:
    """Exit if ``.venv`` has another Python than the requested one."""
    found = re.search(r'^version *= *(\d+\.\d+)',
                      (VENV / 'pyvenv.cfg').read_text(), re.M)
    wanted = '{}.{}'.format(*sys.version_info)
    if 'PYTHON' in os.environ and found and found[1] != wanted:
        sys.exit(f'make env: {VENV} has Python {found[1]}, not {wanted}: '
                 'remove it and run make env again')


def make(wanted: dict) -> None:
    """Create or update the environment."""
    if (VENV / 'pyvenv.cfg').exists():
        check_python()
    else:
        venv.create(VENV, with_pip=True, symlinks=True)
    python = VENV / 'bin' / 'python'

    def run(*command) -> None:
        subprocess.run([str(python), '-m', *map(str, command)], cwd=VENV,
                       check=True)

    lock = VENV / 'requirements.txt'
    lock.write_text(locked((REQUIREMENTS / 'lock.txt').read_text(), wanted))
    print('installing; the first time downloads 3 GB', flush=True)
    run('pip', 'install', '-q', 'uv')
    # uv takes torch and torchvision from the same source; pip may not. Where
    # Python may not write bytecode, imports would compile it every time.
    run('uv', 'pip', 'install', '--python', python, '--compile-bytecode',
        '--overrides', REQUIREMENTS / 'overrides.txt', '-r', lock)
    run('pip', 'install', '-q', '--no-deps', '--no-build-isolation', '-e',
        ROOT)
    run('qbheat_mm.build_mmcv', '--family', 'upstream')
    run('qbheat_mm.check_env')


def main() -> None:
    """Make the environment unless it is up to date."""
    stamp = VENV / 'qbheat_env.json'
    before = json.loads(stamp.read_text()) if stamp.exists() else {}
    wanted = wanted_state(before)
    if wanted == before:
        return
    try:
        make(wanted)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f'make env: {error}')
    stamp.write_text(json.dumps(wanted))
    print(f'{VENV} is ready: source {os.path.relpath(VENV)}/bin/activate')


if __name__ == '__main__':
    main()
