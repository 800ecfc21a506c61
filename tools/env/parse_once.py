# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A C++ compiler that parses torch's headers once, not for every file.

Those headers are most of the work in each of mmcv's 77 files. Called in the
place of the compiler that ``QBHEAT_CXX`` names, with its arguments; keeps the
precompiled header in the folder ``QBHEAT_HEADERS``. Where a compiler takes
none, it is called as if this script were not there.
"""
import fcntl
import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

TEXT = '#include <torch/types.h>\n'
WITH_VALUE = ('-o', '-MF', '-MT', '-MQ')
ALONE = ('-c', '-MD', '-MMD')


def flags_of(arguments: list) -> list:
    """What is left without the names of files: one for all files."""
    flags, skip = [], False
    for argument in arguments:
        if skip or argument in WITH_VALUE:
            skip = not skip
        elif argument not in ALONE and not argument.endswith('.cpp'):
            flags.append(argument)
    return flags


def precompiled(compiler: list, flags: list, folder: Path) -> str:
    """The header to include, precompiled for these flags; '' without one."""
    name = hashlib.sha256('\n'.join(flags).encode()).hexdigest()[:16]
    header = folder / f'{name}.h'
    binary = Path(f'{header}.gch')
    with open(folder / f'{name}.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # others wait for the first
        if not header.exists():
            header.write_text(TEXT)
            half = f'{binary}.half'
            done = subprocess.run(
                [*compiler, *flags, '-x', 'c++-header', str(header), '-o',
                 half], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if done.returncode == 0 and os.path.exists(half):
                os.rename(half, binary)
    return str(header) if binary.exists() else ''


def main() -> int:
    compiler = shlex.split(os.environ['QBHEAT_CXX'])
    arguments = sys.argv[1:]
    sources = [a for a in arguments if a.endswith('.cpp')]
    if '-c' in arguments and len(sources) == 1:
        header = precompiled(compiler, flags_of(arguments),
                             Path(os.environ['QBHEAT_HEADERS']))
        if header and subprocess.call(
                [*compiler, '-include', header, *arguments]) == 0:
            return 0
    return subprocess.call([*compiler, *arguments])


if __name__ == '__main__':
    sys.exit(main())
