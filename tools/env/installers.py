# Copyright (c) QB-Heat MM authors. All rights reserved.
"""pip or uv, whichever serves an interpreter, and the tools of a build."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from shell import EnvError, cache_dir, locked, run, say

# What builds mmcv: its setup.py imports pkg_resources, gone from setuptools
# 81; without ninja the compilers would run one after the other.
TOOLS = ('pip', 'setuptools<81', 'wheel', 'ninja')
FIND_TOOLS = """
import importlib.util, sys
print('cp%d%d' % sys.version_info[:2])
names = 'pip', 'setuptools', 'pkg_resources', 'wheel'
sys.exit(not all(map(importlib.util.find_spec, names)))
"""


def answers(command: list, **kwargs) -> bool:
    try:
        return subprocess.run([*command, '--version'], capture_output=True,
                              **kwargs).returncode == 0
    except OSError:
        return False


def find_uv() -> list:
    """The command that runs uv, installed into the cache if need be."""
    own = cache_dir() / 'uv'
    for command in (['uv'], [sys.executable, '-m', 'uv'],
                    [str(own / 'bin' / 'uv')]):
        if answers(command):
            return command
    say(f'installing uv into {own}')
    shutil.rmtree(own, ignore_errors=True)
    try:
        run([sys.executable, '-m', 'venv', str(own)])
        run([str(own / 'bin' / 'python'), '-m', 'pip', 'install', '-q', 'uv'])
    except EnvError as error:
        raise EnvError(
            f'uv could not be installed ({error}); put uv on the PATH, or '
            'mend `python3 -m venv` (Debian: python3-venv)') from error
    return [str(own / 'bin' / 'uv')]


class Installer:
    """Spells commands for one interpreter: its own pip, or uv without one."""

    def __init__(self, python: Path) -> None:
        self.python = str(python)
        self.has_pip = answers([self.python, '-m', 'pip'])
        self.uv = [] if self.has_pip else find_uv()

    def install(self, *arguments: str) -> list:
        if self.has_pip:
            return [self.python, '-m', 'pip', 'install', *arguments]
        return [*self.uv, 'pip', 'install', '--python', self.python,
                *arguments]

    def uninstall(self, *names: str) -> list:
        """Names that are not there are passed over by both."""
        if self.has_pip:
            return [self.python, '-m', 'pip', 'uninstall', '-q', '-y', *names]
        return [*self.uv, 'pip', 'uninstall', '-q', '--python', self.python,
                *names]


def build_environment(python: Path) -> dict:
    """Environment variables with which ``python`` finds a build's tools.

    What the interpreter lacks comes from a folder in the cache: an own
    environment is not altered by a build.

    Raises:
        EnvError: there is no such interpreter, or the tools are not to be
            had.
    """
    env = dict(os.environ)
    prepend(env, 'PATH', python.parent)
    try:
        found = subprocess.run([str(python), '-c', FIND_TOOLS], text=True,
                               capture_output=True)
    except OSError as error:
        raise EnvError(f'{python} is no Python: {error}') from error
    tag = found.stdout.strip()
    if not tag:
        raise EnvError(f'{python} is no Python that runs')
    if found.returncode == 0 and answers(['ninja'], env=env):
        return env
    folder = _tools_folder(python, tag)
    prepend(env, 'PATH', folder / 'bin')
    prepend(env, 'PYTHONPATH', folder)
    return env


def prepend(env: dict, name: str, folder: Path) -> None:
    """Put a folder before those of a variable of an environment."""
    env[name] = os.pathsep.join(filter(None, (str(folder), env.get(name))))


def _tools_folder(python: Path, tag: str) -> Path:
    """Install the tools for Pythons of one version, moved there at once."""
    folder = cache_dir() / 'build_tools' / tag
    with locked(folder.with_name(f'{tag}.lock'), 'installing these tools'):
        if not folder.exists():
            say(f'installing what builds mmcv into {folder}')
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                tools = Path(work) / 'tools'
                run(Installer(python).install('-q', '--target', str(tools),
                                              *TOOLS))
                tools.rename(folder)
    return folder
