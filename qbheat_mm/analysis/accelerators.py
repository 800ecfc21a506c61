# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Time of a training step on an accelerator, computed from its work.

A step takes as long as the slowest of three: launching its operators one by
one, arithmetic, or moving tensors between memory and chip.
"""
from typing import NamedTuple


class Accelerator(NamedTuple):
    """Rates of a data sheet (SXM)."""

    half: float  # dense TFLOP/s in fp16 or bf16
    single: float  # TFLOP/s in fp32
    memory: float  # TB/s


class Work(NamedTuple):
    """What a training step does."""

    madds: float  # multiply-adds
    moved: float  # bytes that operators read and write
    operators: int  # dispatched, without views and allocations


ACCELERATORS = dict(
    t4=Accelerator(65, 8.1, .32), v100=Accelerator(125, 15.7, .9),
    a100=Accelerator(312, 19.5, 2.04), h100=Accelerator(989, 67, 3.35),
    h200=Accelerator(989, 67, 4.8), rtx3090=Accelerator(71, 35.6, .936),
    rtx4090=Accelerator(165, 82.6, 1.008))

# Fitted to measurements by tools/benchmark/calibration.py.
#: Seconds to launch an operator, on the host of the H200.
LAUNCH = 28e-6
#: Shares of the peak arithmetic and memory rates that a step reaches.
ARITHMETIC, MEMORY = .67, .36
#: Measured rates are within this factor of computed ones ...
SPREAD = 1.3
#: ... but, on another host of the same GPU, this factor lower.
SLOW_HOST = 2


def times(work: Work, accelerator: str, half: bool) -> dict[str, float]:
    """Seconds that each kind of work takes alone.

    Args:
        work (Work): Work of a step.
        accelerator (str): A key of ``ACCELERATORS``.
        half (bool): Whether products are computed in half precision.

    Returns:
        dict[str, float]: The step takes as long as the slowest.
    """
    peak = ACCELERATORS[accelerator]
    rate = 1e12 * (peak.half if half else peak.single)
    return dict(
        launches=work.operators * LAUNCH,
        arithmetic=2 * work.madds / (rate * ARITHMETIC),
        memory=work.moved / (1e12 * peak.memory * MEMORY))
