# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Decoded images in memory that all workers and processes share."""
import logging
import mmap
import os
import struct
from pathlib import Path

import numpy as np
import psutil
from mmengine.dist import all_gather_object
from mmengine.logging import print_log

#: Bytes to leave to everything else, and to write before looking again.
RESERVE, INTERVAL = 2 << 30, 64 << 20
# An image starts at a multiple of this; what lies between needs no memory.
_SLOT = 64 << 20
_SLOTS_MAPPED = 4096  # at once: each mapping keeps a file open
_HEADER = struct.Struct('<3q')


class ImageCache:
    """Decoded images in a file without a name, in memory.

    Forked workers inherit it, others open it through ``path``. The kernel
    frees it with the last process, however that ends.

    Args:
        path (str, optional): ``path`` of another cache, to share its memory.
    """

    def __init__(self, path: str | None = None) -> None:
        self._file = (os.memfd_create('images') if path is None
                      else os.open(path, os.O_RDWR))
        os.ftruncate(self._file, _SLOT << 24)  # 16 million images
        self.path = f'/proc/{os.getpid()}/fd/{self._file}'
        self._maps: dict[int, mmap.mmap] = {}
        self._allowed = 0

    def __reduce__(self) -> tuple:
        return ImageCache, (self.path, )

    def __del__(self) -> None:
        if '_file' in vars(self):
            os.close(self._file)

    def shared(self) -> 'ImageCache':
        """Return the cache of the first training process of this machine."""
        here = (  # where paths of processes mean the same
            _lines('/proc/sys/kernel/random/boot_id'),
            os.readlink('/proc/self/ns/pid'))
        paths = all_gather_object((here, self.path))
        first = next(path for place, path in paths if place == here)
        return self if first == self.path else ImageCache(first)

    def get(self, index: int
            ) -> tuple[tuple[int, int], int, np.ndarray] | None:
        """Return what was put, or None; see :meth:`put`."""
        start = (index + 1) * _SLOT
        header = os.pread(self._file, _HEADER.size, start)
        if not any(header):
            return None
        height, width, reduction = _HEADER.unpack(header)
        shape = -(-height // reduction), -(-width // reduction), 3
        first = start - start % (_SLOT * _SLOTS_MAPPED)
        if first not in self._maps:
            self._maps[first] = mmap.mmap(
                self._file, _SLOT * _SLOTS_MAPPED, offset=first)
        return (height, width), reduction, np.ndarray(
            shape, np.uint8, self._maps[first], start - first + _HEADER.size)

    def put(self, index: int, shape: tuple[int, int], reduction: int,
            pixels: np.ndarray) -> None:
        """Keep an image, unless memory is short or it has over 64 MiB.

        Args:
            index (int): Index of the sample.
            shape (tuple[int, int]): Height and width of the whole image.
            reduction (int): Factor by which its sides were reduced.
            pixels (np.ndarray): (H / reduction, W / reduction, 3), rounded
                up, uint8.
        """
        if pixels.nbytes + _HEADER.size <= _SLOT and self._has_room(
                pixels.nbytes):
            start = (index + 1) * _SLOT
            os.pwrite(self._file, pixels, start + _HEADER.size)
            # Last: from now on others read it.
            os.pwrite(self._file, _HEADER.pack(*shape, reduction), start)

    def _has_room(self, size: int) -> bool:
        """Whether ``size`` bytes may be written; log the first refusal."""
        if any(os.pread(self._file, 1, 0)):
            return False
        self._allowed -= size
        if self._allowed >= 0:
            return True
        self._allowed, left = INTERVAL, available_memory()
        if left >= RESERVE:
            return True
        os.pwrite(self._file, b'1', 0)
        print_log(f"cache='ram' is off from here on: {left / 2**30:.1f} GiB "
                  'of memory are left; images that it lacks are decoded in '
                  'every epoch', logger='current', level=logging.WARNING)
        return False


def open_cache() -> ImageCache | None:
    """Create a cache; None where the system has no memory files."""
    if hasattr(os, 'memfd_create'):
        return ImageCache()
    print_log("cache='ram' is off: it needs Linux", logger='current',
              level=logging.WARNING)
    return None


def available_memory() -> int:
    """Bytes that can be allocated on this machine, in its control group."""
    return min([psutil.virtual_memory().available, *_left_to_groups()])


def _left_to_groups() -> list[int]:
    """Bytes left to the control groups of this process, e.g. a container."""
    left = []
    for line in _lines('/proc/self/cgroup'):
        _, kind, path = line.split(':', 2)
        if kind not in ('', 'memory'):  # versions 2 and 1
            continue
        limit, usage, inactive = (
            ('limit_in_bytes', 'usage_in_bytes', 'total_inactive_file')
            if kind else ('max', 'current', 'inactive_file'))
        root = Path('/sys/fs/cgroup', kind)
        # A container may see its own group as the root.
        for folder in (root / path[1:], root):
            most = _lines(folder / f'memory.{limit}')
            if most and most[0].isdecimal():
                used = int(_lines(folder / f'memory.{usage}')[0])
                stat = dict(map(str.split, _lines(folder / 'memory.stat')))
                left.append(int(most[0]) - used + int(stat[inactive]))
    return left


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
