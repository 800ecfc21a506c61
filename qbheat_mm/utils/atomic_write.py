# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write files atomically."""
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[str]:
    """Write to a temporary file that is renamed on success.

    Args:
        path (str | PathLike): File to write; its folder is created.

    Yields:
        str: Path of the temporary file, in the same folder.
    """
    folder, name = os.path.split(os.path.abspath(path))
    part = os.path.join(folder, f'.{os.getpid()}.{name}')
    os.makedirs(folder, exist_ok=True)
    try:
        yield part
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)
