# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Files that are there whole or not at all."""
import os
import os.path as osp
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import UserError


def part_of(out: str) -> str:
    """A name beside a file's, of this process alone, to write it under."""
    folder, name = osp.split(osp.abspath(out))
    return osp.join(folder, f'.{os.getpid()}.{name}')


def require_other(out: str, source: str) -> None:
    """Raise UserError if a file to be written is the one that is read."""
    if osp.exists(out) and osp.exists(source) and osp.samefile(out, source):
        raise UserError(f"'{out}' is what is read, and would be lost: give "
                        'another file to write')


@contextmanager
def atomic_write(out: str) -> Iterator[str]:
    """Write to another name, which is then changed to the one wanted.

    Args:
        out (str): The file wanted; its folder is made.

    Yields:
        str: The name to write to.

    Raises:
        UserError: If nothing can be written there.
    """
    if osp.isdir(out):
        raise UserError(f"'{out}' is a folder: give a file in it")
    part = part_of(out)
    try:
        os.makedirs(osp.dirname(part), exist_ok=True)
        yield part
        os.replace(part, out)
    except OSError as error:
        raise UserError(f"'{out}' cannot be written: "
                        f'{error.strerror or error}; give another file'
                        ) from error
    finally:
        if osp.exists(part):
            os.remove(part)
