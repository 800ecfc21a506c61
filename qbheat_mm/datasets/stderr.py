# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What libraries written in C print to the standard error."""
import os
import tempfile
import threading
from collections.abc import Callable
from typing import Any

_lock = threading.Lock()
_buffer = dict(process=None, file=None)


def _renew_lock() -> None:
    """A process that was forked meanwhile need not wait for its parent."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def call_and_listen(function: Callable[[], Any]) -> tuple[Any, str]:
    """Call a function and catch what is printed below Python meanwhile.

    Other threads of the process are heard, too, so pass on what is not
    understood, by :func:`pass_on`.

    Args:
        function (Callable): Called without arguments. Its errors are raised.

    Returns:
        tuple[Any, str]: What it returns, and the text.
    """
    with _lock:
        try:
            shown = os.dup(2)
        except OSError:  # there is no standard error
            return function(), ''
        file = _own_buffer()
        try:
            os.dup2(file.fileno(), 2)
            result = function()
        finally:
            os.dup2(shown, 2)
            os.close(shown)
            length = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            text = b''
            if length:
                text = os.pread(file.fileno(), length, 0)
                os.ftruncate(file.fileno(), 0)
                os.lseek(file.fileno(), 0, os.SEEK_SET)
        return result, text.decode(errors='replace')


def pass_on(text: str) -> None:
    """Print to the standard error what was caught and meant for others."""
    if text:
        os.write(2, text.encode(errors='replace'))


def _own_buffer():
    """A file in memory; a forked process must not write into its parent's."""
    if _buffer['process'] != os.getpid():
        _buffer.update(process=os.getpid(), file=_open_buffer())
    return _buffer['file']


def _open_buffer():
    if hasattr(os, 'memfd_create'):
        return os.fdopen(os.memfd_create('stderr'), 'w+b', buffering=0)
    return tempfile.TemporaryFile(buffering=0)
