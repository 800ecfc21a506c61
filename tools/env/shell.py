# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the scripts of environments share: messages, commands, the cache."""
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

START = time.monotonic()


class EnvError(Exception):
    """An environment that cannot be made: one line with the way out."""


def say(text: str) -> None:
    print(f'[env {duration(time.monotonic() - START)}] {text}', flush=True)


def duration(seconds: float) -> str:
    """Format seconds as ``m:ss``."""
    return f'{int(seconds) // 60}:{int(seconds) % 60:02d}'


def run(command: list, **kwargs) -> None:
    """Run a command in the open; its failure ends the making of the env.

    Raises:
        EnvError: the command cannot be started or exits with an error.
    """
    try:
        code = subprocess.call(command, **kwargs)
    except OSError as error:
        raise EnvError(f'cannot run {command[0]}: {error}') from error
    if code != 0:
        raise EnvError(f'exit status {code} from: {" ".join(command)}')


def end_in_order(*_) -> None:
    """End by a signal, but end the compilers and clear the cache first.

    make passes a signal on that the whole group got already: one counts.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def cache_dir() -> Path:
    """The user's cache: ``QBHEAT_CACHE`` or ``~/.cache/qbheat_mm``."""
    default = Path.home() / '.cache' / 'qbheat_mm'
    return Path(os.environ.get('QBHEAT_CACHE') or default).absolute()


@contextlib.contextmanager
def locked(path: Path, what: str):
    """Hold the lock file ``path``, waiting for another process's end.

    The system frees it when its holder dies, however it dies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'w') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f'another process is {what}; waiting for it ({path})')
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
