# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Make the project's ``.venv``: what ``make env`` runs.

Needs Python 3.10 or newer on Linux or macOS, and a C++ compiler to build mmcv
once. ``TORCH=2.11.0`` and ``TORCHVISION=0.26.0`` choose other versions than
the lock's; later calls remember them.
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
VENV = ROOT / '.venv'


def read_stamp(stamp: Path) -> dict:
    """Read what the last ``make env`` wrote when it was done."""
    try:
        return json.loads(stamp.read_text())
    except (OSError, ValueError):
        return {}


def state(root: Path, stamp: dict) -> dict:
    """The versions asked for, and a hash of what installs them."""
    digest = hashlib.sha256(str(root).encode())
    for file in (Path(__file__), root / 'setup.py',
                 root / 'qbheat_mm' / 'build_mmcv.py',
                 *sorted((root / 'requirements').glob('*.txt'))):
        digest.update(file.read_bytes())
    return {**{name: os.environ.get(name, stamp.get(name, ''))
               for name in ('TORCH', 'TORCHVISION')},
            'files': digest.hexdigest()}


def requirements(lock: str, wanted: dict) -> str:
    """The lock, or with the torch and torchvision that are asked for."""
    if not wanted['TORCH'] and not wanted['TORCHVISION']:
        return lock
    lock = re.sub(r'^torch(vision)?==.*\n', '', lock, flags=re.M)
    for name in ('torch', 'torchvision'):  # uv finds one that fits the other
        version = wanted[name.upper()]
        lock += f'{name}=={version}\n' if version else f'{name}\n'
    return lock


def check_python(folder: Path) -> None:
    """End if the environment is not of the Python that was asked for."""
    found = re.search(r'^version *= *(\d+\.\d+)',
                      (folder / 'pyvenv.cfg').read_text(), re.M)
    asked = '%d.%d' % sys.version_info[:2]
    if 'PYTHON' in os.environ and found and found[1] != asked:
        sys.exit(f'make env: {folder} has Python {found[1]}, not {asked}: '
                 'remove it and run make env again')


def make(root: Path, folder: Path, wanted: dict) -> None:
    """Create the environment, or bring it up to date.

    Raises:
        CalledProcessError: If a step fails.
    """
    if (folder / 'pyvenv.cfg').exists():
        check_python(folder)
    else:
        venv.create(folder, with_pip=True, symlinks=True)
    python = folder / 'bin' / 'python'

    def run(*command) -> None:
        subprocess.run([str(python), '-m', *map(str, command)], cwd=folder,
                       check=True)

    texts = root / 'requirements'
    lock = folder / 'requirements.txt'
    lock.write_text(requirements((texts / 'lock.txt').read_text(), wanted))
    print('installing; the first time downloads 3 GB', flush=True)
    run('pip', 'install', '-q', 'uv')
    # torch and torchvision from one source, which pip doesn't ensure.
    run('uv', 'pip', 'install', '--python', python, '--overrides',
        texts / 'overrides.txt', '-r', lock)
    run('pip', 'install', '-q', '--no-deps', '--no-build-isolation', '-e',
        root)
    run('qbheat_mm.build_mmcv', '--family', 'upstream', '--no-deps')
    run('qbheat_mm.check_env')


def main() -> None:
    """Make the environment unless it is up to date."""
    stamp = VENV / 'qbheat_env.json'
    before = read_stamp(stamp)
    wanted = state(ROOT, before)
    if wanted == before:
        return
    try:
        make(ROOT, VENV, wanted)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f'make env: {error}')
    stamp.write_text(json.dumps(wanted))
    print(f'{VENV} is ready: source .venv/bin/activate')


if __name__ == '__main__':
    main()
