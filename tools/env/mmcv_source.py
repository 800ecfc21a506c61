# Copyright (c) QB-Heat MM authors. All rights reserved.
"""mmcv's source, as the torch that is installed can build it.

mmcv's ``setup.py`` names a language standard (C++17), torch's headers demand
another one with time (C++20 since torch 2.14), and no setting of a build
overrides what ``setup.py`` names. Where it names none, torch adds the one that
its own headers need, to the compiler's flags and to nvcc's. So none is named.
"""
import re
import tarfile
from pathlib import Path

from shell import EnvError

# The families' names for mmcv and the versions that were tried.
MMCV = dict(upstream=('mmcv', '2.1.0'), onedl=('onedl-mmcv', '2.3.6'))

# A flag such as '-std=c++17' or '/std:c++17' in a list, with its comma.
STANDARD = re.compile(r"""(['"])[-/]std[=:][^'"]*\1\s*,?""")


def download_command(python: Path, name: str, version: str,
                     folder: Path) -> list:
    """The command that fetches the source distribution into ``folder``.

    It needs torch and a ``pkg_resources``: pip asks ``setup.py`` for the
    distribution's name.
    """
    return [str(python), '-m', 'pip', 'download', '--no-deps',
            '--no-build-isolation', '--no-cache-dir', '--no-binary', ':all:',
            '--dest', str(folder), f'{name}=={version}']


def unpack(folder: Path) -> Path:
    """Unpack the one source distribution in ``folder``; return its root.

    Raises:
        EnvError: there is none, or it is damaged or no Python project.
    """
    archives = sorted(folder.glob('*.tar.gz'))
    if len(archives) != 1:
        raise EnvError(f'{folder} holds {len(archives)} source distributions '
                       'of mmcv, not one')
    root = folder / archives[0].name[:-len('.tar.gz')]
    try:
        with tarfile.open(archives[0]) as archive:
            safely = hasattr(tarfile, 'data_filter')  # of newer Pythons
            archive.extractall(folder, **(
                dict(filter='data') if safely else {}))
    except (OSError, EOFError, tarfile.TarError) as error:
        raise EnvError(f'{archives[0].name} is damaged ({error}): run this '
                       'again') from error
    if not (root / 'setup.py').is_file():
        raise EnvError(f'{archives[0].name} holds no setup.py')
    return root


def leave_standard_to_torch(root: Path) -> None:
    """Take the language standards out of a source tree's ``setup.py``."""
    file = root / 'setup.py'
    text = STANDARD.sub('', file.read_text(encoding='utf-8'))
    try:
        compile(text, str(file), 'exec')
    except SyntaxError as error:
        raise EnvError(f'the setup.py of {root.name} names its language '
                       f'standard in a new way ({error})') from error
    file.write_text(text, encoding='utf-8')
