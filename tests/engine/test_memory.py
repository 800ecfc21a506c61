# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Training on a CPU keeps the memory of a step for the next one."""
import platform
import resource

import pytest
import torch

from qbheat_mm.engine.memory import keep_freed_memory


def count_faults():
    """Count pages that the kernel clears for a tensor of 16,384 pages."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(1 << 24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='needs glibc')
def test_freed_memory_is_kept():
    keep_freed_memory()
    assert min(count_faults() for _ in range(4)) < 100
