# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Memory of training on a CPU."""
import ctypes
import platform

# Parameters of glibc's mallopt
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


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
