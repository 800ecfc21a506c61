# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Report errors of tools."""
import io
import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import UserError


def report_user_errors(main: Callable[[], None]) -> None:
    """Run a tool; print a ``UserError`` as one line.

    Other exceptions keep their traceback and get the command as last line,
    since messages of other packages rarely name the setting. What cannot be
    printed, as file names that are not UTF-8, is escaped.

    Raises:
        SystemExit: With status 1, after a ``UserError``.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # not in notebooks
        sys.stdout.reconfigure(errors='backslashreplace')
    try:
        main()
    except Exception as error:
        if isinstance(error, UserError):
            _exit(f'error: {_last_line(error)}')
        if hasattr(error, 'add_note'):  # Python 3.11
            error.add_note(f'while running {shlex.join(sys.argv)}: '
                           f'{type(error).__name__}: {_last_line(error)}')
        raise


def _exit(line: str) -> None:
    """Exit with a message, which torchrun prints last, from its file."""
    file = os.environ.get('TORCHELASTIC_ERROR_FILE')
    if file:
        Path(file).write_text(json.dumps(
            dict(message=line, timestamp=int(time.time()))))
    sys.exit(1 if file else line)


def _last_line(error: Exception) -> str:
    """Last line of a message; data loader workers send tracebacks."""
    last = (str(error).strip().splitlines() or [''])[-1]
    return last.removeprefix('qbheat_mm.errors.UserError: ')
