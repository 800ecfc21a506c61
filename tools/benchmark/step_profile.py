# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Time of a step by kinds of operations."""
import re
from collections import Counter
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile

#: Kinds and patterns of their operations' names; the first match counts.
KINDS = {
    'attention': r'attention|_flash_',
    'convolutions': r'conv',
    'matrix products': r'::(mm|addmm|bmm|baddbmm|matmul|linear|mkldnn_linear'
                       r'\w*|_addmm_activation)$|gemm',
    'normalization': r'norm',
    'activations': r'gelu|relu|threshold|hardtanh|clamp|sigmoid|softmax'
                   r'|hardswish|silu',
    'optimizer': r'adam|foreach|sgd|lamb',
    'copies': r'copy|cat$|index|select|gather|scatter|clone|contiguous|fill'
              r'|zero|embedding|pad|to$',
}
REST = 'rest'


def kind_of(operation: str) -> str:
    """Kind of an operation, by its name in PyTorch."""
    return next((kind for kind, pattern in KINDS.items()
                 if re.search(pattern, operation)), REST)


def time_by_kind(step: Callable[[], object], device: str,
                 repeats: int = 3) -> dict[str, float]:
    """Shares of a step's time, by kind.

    Args:
        step (Callable): Called ``repeats`` times after a warm-up.
        device (str): On CUDA the time of kernels counts, for the operation
            that launched them.
        repeats (int): Defaults to 3.

    Returns:
        dict[str, float]: Of ``KINDS`` and ``REST``, the largest first; they
        sum to 1.
    """
    step()
    cuda = device.startswith('cuda')
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * cuda
    with profile(activities=activities) as profiler:
        for _ in range(repeats):
            step()
    spent: Counter[str] = Counter(dict.fromkeys((*KINDS, REST), 0.))
    for event in profiler.key_averages():
        spent[kind_of(event.key)] += (
            event.self_device_time_total if cuda and 'aten' in event.key
            else 0 if cuda else event.self_cpu_time_total)
    whole = sum(spent.values())
    return {kind: time / whole for kind, time in spent.most_common()}
