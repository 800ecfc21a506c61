# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Let ``exec`` in a function make local variables, as before Python 3.13.

mmcv's ``setup.py`` reads its version so; since 3.13 (PEP 667) ``exec`` without
namespaces writes into a copy of the function's, which is lost. Under the name
``sitecustomize`` this is what the Pythons of a build begin with.
"""
import builtins
import sys

_exec = builtins.exec


def _exec_in_frame(source, globals=None, locals=None, /, **kwargs):
    """Run ``source`` in the caller's own namespaces unless some are given."""
    if globals is None:
        frame = sys._getframe(1)
        globals = frame.f_globals
        locals = frame.f_locals if locals is None else locals
    return _exec(source, globals, locals, **kwargs)


if sys.version_info >= (3, 13):
    builtins.exec = _exec_in_frame
