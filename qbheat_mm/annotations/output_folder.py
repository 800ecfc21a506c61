# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write a folder whole or not at all, and over nothing that is there."""
import os
import os.path as osp
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from ..errors import UserError


def require_new(out: str, names: Iterable[str]) -> None:
    """Refuse folders to write to that hold entries of these names.

    Raises:
        UserError: If one exists, or mmengine cannot put the path into a
            config, which has a quote, a backslash, braces or a control
            character, or is not UTF-8.
    """
    path = osp.abspath(out)
    for text in ('"', '\\', '{{', '\r', '\n'):
        if text in path:
            raise UserError(f'--out {path!r} has {text!r}, which configs '
                            'cannot hold: choose another folder')
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UserError(f'--out {path!r} is not UTF-8: choose another folder'
                        ) from None
    for name in names:
        if osp.lexists(osp.join(out, name)):
            raise UserError(f"'{osp.join(out, name)}' exists: choose another "
                            '--out, or move it away')


@contextmanager
def drafted(out: str) -> Iterator[str]:
    """Yield a new folder, whose entries are moved to ``out`` at the end.

    After an error, ``out`` is as it was.

    Raises:
        UserError: If ``out`` has an entry of the same name by then.
    """
    is_new = not osp.isdir(out)
    os.makedirs(out, exist_ok=True)
    try:
        with TemporaryDirectory(prefix='.draft-', dir=out) as draft:
            yield draft
            names = os.listdir(draft)
            require_new(out, names)
            for name in names:
                os.rename(osp.join(draft, name), osp.join(out, name))
    finally:
        if is_new and not os.listdir(out):
            os.rmdir(out)
