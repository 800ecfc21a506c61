# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Memory of workers, and of training on a CPU."""
import ctypes
import logging
import os
import platform
import shutil

#: Where Linux keeps what processes share, and what is little for batches: two
#: workers fetch 200 MB of 16 images of 1333 x 800. Docker gives 64 MB.
FOLDER, LITTLE = '/dev/shm', 2**28
# Parameters of glibc's mallopt
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def warn_of_little_shared_memory(logger: logging.Logger) -> None:
    """Warn of less than 256 MB: torch's workers stop, and the run waits."""
    if not os.path.isdir(FOLDER):
        return
    size = shutil.disk_usage(FOLDER).total
    if size < LITTLE:
        logger.warning(
            f'{FOLDER} has {size / 2**20:.0f} MB. If workers fill it ("unable '
            'to allocate shared memory"), the run waits forever: start the '
            'container with --shm-size=2g, or set '
            'train_dataloader.num_workers=0 (val_dataloader, too)')


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next step.

    By default, it returns that of large tensors to the kernel, which clears
    their pages anew in each step: up to half of a step's time on a CPU. Does
    nothing with another C library.
    """
    if platform.libc_ver()[0] == 'glibc':
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_MAX, 0)
        library.mallopt(_M_TRIM_THRESHOLD, -1)
