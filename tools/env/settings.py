# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What ``make env`` is to make, and the stamp that says it was made."""
import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from shell import EnvError

STAMP = 'qbheat_env.json'
# Where torch is the machine's own, only these versions are held.
HELD_BESIDE_SYSTEM_TORCH = ('mmengine', 'mmcv', 'mmdet', 'mmpretrain',
                            'openmim', 'setuptools')


@dataclass(frozen=True)
class Settings:
    """A person's choices; those not named again are kept by the stamp.

    Args:
        torch (str): ``TORCH``, another version than the lock's.
        torchvision (str): ``TORCHVISION``, likewise; without it the one that
            fits ``TORCH`` is found.
        system_torch (str): ``QBHEAT_SYSTEM_TORCH``, '1' to use the torch
            that PYTHON has.
    """
    torch: str = ''
    torchvision: str = ''
    system_torch: str = ''

    @classmethod
    def read(cls, stamp: dict) -> 'Settings':
        kept = stamp.get('settings', {})
        names = dict(torch='TORCH', torchvision='TORCHVISION',
                     system_torch='QBHEAT_SYSTEM_TORCH')
        chosen = {
            field: os.environ.get(name, kept.get(field, '')).strip()
            for field, name in names.items()
        }
        if chosen['system_torch'] == '0':
            chosen['system_torch'] = ''
        return cls(**chosen)

    def pins(self, lock: Path) -> dict:
        """Read the lock as ``{name: version}``, with the choices applied.

        A version of '' leaves the choice to the installer.
        """
        pins = dict(re.findall(r'^([a-z0-9-]+)==(\S+)', lock.read_text(),
                               re.M))
        if self.system_torch == '1':
            if self.torch or self.torchvision:
                raise EnvError(
                    'QBHEAT_SYSTEM_TORCH=1 takes the torch that is there: '
                    'leave out TORCH and TORCHVISION')
            pins.pop('torch')
            pins.pop('torchvision')
            return {name: version if name in HELD_BESIDE_SYSTEM_TORCH else ''
                    for name, version in pins.items()}
        if self.torch:
            pins.update(torch=self.torch, torchvision=self.torchvision)
        elif self.torchvision:
            pins.update(torchvision=self.torchvision)
        return pins


def read_stamp(venv: Path) -> dict:
    try:
        return json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return {}


def write_stamp(venv: Path, settings: Settings, fingerprint: str) -> None:
    """Keep the choices; a fingerprint of '' says that work is to be done."""
    text = json.dumps(dict(settings=asdict(settings),
                           fingerprint=fingerprint), indent=2)
    (venv / STAMP).write_text(text + '\n')


def fingerprint(root: Path, venv: Path, settings: Settings) -> str:
    """Hash everything that an up-to-date environment was made from."""
    digest = hashlib.sha256(f'{root}\n{settings}\n'.encode())
    files = [venv / 'pyvenv.cfg', root / 'setup.py',
             *sorted((root / 'requirements').glob('*.txt')),
             *sorted((root / 'tools' / 'env').glob('*.py'))]
    for file in files:
        digest.update(file.read_bytes() if file.exists() else b'')
    return digest.hexdigest()


def installed(venv: Path) -> dict:
    """Read ``{name: version}`` off an environment's folder names."""
    found = {}
    for info in venv.glob('lib/python*/site-packages/*.dist-info'):
        name, _, version = info.name[:-len('.dist-info')].partition('-')
        found[re.sub(r'[-_.]+', '-', name).lower()] = version.split('+')[0]
    return found


def is_up_to_date(root: Path, venv: Path, settings: Settings) -> bool:
    """Whether nothing is to be done; quick, for it imports nothing."""
    if read_stamp(venv).get('fingerprint') != fingerprint(
            root, venv, settings):
        return False
    if not (root / 'qbheat_mm' / '.mim' / 'configs').exists():  # git clean
        return False
    if not list(venv.glob('lib/python*/site-packages/mmcv/_ext.*')):
        return False
    found = installed(venv)
    if any(name.startswith('onedl-') for name in found):
        return False  # of the other family: the check must say so
    pins = settings.pins(root / 'requirements' / 'lock.txt')
    if settings.system_torch == '1':  # some live outside of the environment
        pins = {}
    return 'qbheat-mm' in found and all(
        found.get(name) == version or (not version and name in found)
        for name, version in pins.items())
