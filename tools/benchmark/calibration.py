# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compare computed rates of tools/estimate.py with measured ones.

Prints a Markdown table and the constants of qbheat_mm/analysis/accelerators.py
that fit it best. Each row has the work of the step when it was measured, as
tools/estimate.py prints it; no row changes with the code.
"""
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from qbheat_mm.analysis.accelerators import (
    ARITHMETIC,
    LAUNCH,
    MEMORY,
    Work,
    times,
)


class Row(NamedTuple):
    """A measured training step."""

    name: str
    accelerator: str
    precision: str
    batch_size: int
    rate: float  # images/s
    work: Work


_EFFICIENTNET = Work(0.296e12, 73.2e9, 869)
_FIRST = Work(4.07e12, 112e9, 3483)
ROWS = [
    # Measured with torch 2.11 on synthetic images, all weights in one group.
    Row('MF-285M', 'h200', 'bf16', 256, 2491, _FIRST),
    Row('MF-285M', 'h200', 'fp16', 256, 3001, _FIRST),
    Row('MF-1.0G', 'h200', 'bf16', 256, 2783, Work(4.28e12, 136e9, 3485)),
    Row('MF-3.7G', 'h200', 'bf16', 256, 1941, Work(5e12, 184e9, 3485)),
    Row('MF-285M, decoder 2 x 128', 'h200', 'bf16', 256, 3082,
        Work(0.194e12, 36.7e9, 3281)),
    Row('MF-3.7G, decoder 2 x 128', 'h200', 'bf16', 256, 2310,
        Work(1.08e12, 109e9, 3283)),
    Row('MAE ViT-S/16', 'h200', 'bf16', 256, 3308,
        Work(6.62e12, 141e9, 1212)),
    Row('MAE ViT-B/16', 'h200', 'bf16', 256, 2667, Work(9.9e12, 172e9, 1212)),
    # NVIDIA's DeepLearningExamples, PyTorch; a V100 of 16 GB.
    Row('EfficientNet-B0', 'v100', 'fp16', 256, 1301, _EFFICIENTNET),
    Row('EfficientNet-B0', 'v100', 'fp32', 256, 655,
        Work(0.296e12, 146e9, 636)),
    Row('EfficientNet-B0', 'a100', 'fp16', 256, 2489, _EFFICIENTNET),
    # timm's benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv.
    Row('EfficientNet-B0', 'rtx3090', 'fp16', 384, 1459,
        Work(0.444e12, 110e9, 869)),
    Row('MobileNetV3-Large', 'rtx3090', 'fp16', 512, 2167,
        Work(0.333e12, 79.3e9, 642)),
    Row('DeiT-S', 'rtx3090', 'fp16', 384, 1054, Work(5.3e12, 115e9, 664)),
    Row('ConvNeXt-T', 'rtx3090', 'fp16', 256, 813, Work(3.42e12, 116e9, 702)),
    Row('ViT-B/32', 'rtx3090', 'fp16', 512, 1704, Work(6.77e12, 81e9, 664)),
]
# Measured by tools/benchmark/gpu.sh on another host, and not fitted to.
SLOW = [
    Row('MF-285M, slow host', 'h200', 'bf16', 256, 2317,
        Work(4.07e12, 101e9, 2039)),
    Row('MF-1.0G, slow host', 'h200', 'bf16', 256, 2467,
        Work(4.28e12, 127e9, 2041)),
    Row('MF-3.7G, slow host', 'h200', 'bf16', 256, 1715,
        Work(5e12, 177e9, 2041)),
]


def computed(row: Row) -> dict[str, float]:
    """Seconds of the measured step by kind of work."""
    return times(row.work, row.accelerator, row.precision != 'fp32')


def fit(rows: list[Row]) -> np.ndarray:
    """Fit the constants to measured rates: least squares of logarithms."""
    measured = np.array([row.batch_size / row.rate for row in rows])
    start = np.log([LAUNCH, 1 / ARITHMETIC, 1 / MEMORY])
    alone = np.log([list(computed(row).values()) for row in rows]) - start
    found = minimize(lambda constants: np.square(
        (alone + constants).max(1) - np.log(measured)).sum(), start,
        method='Nelder-Mead')
    launch, arithmetic, memory = np.exp(found.x)
    return np.array([launch, 1 / arithmetic, 1 / memory])


def main() -> None:
    print('| training step | batch | measured, images/s | computed | ratio '
          '| bound by |\n|---|--:|--:|--:|--:|---|')
    for row in [*ROWS, *SLOW]:
        seconds = computed(row)
        bound = max(seconds, key=seconds.get)
        rate = row.batch_size / seconds[bound]
        print(f'| {row.name}, {row.accelerator.upper()}, {row.precision} '
              f'| {row.batch_size} | {row.rate:,} | {rate:,.0f} '
              f'| {rate / row.rate:.2f} | {bound} |')
    launch, arithmetic, memory = fit(ROWS)
    print(f'\nThe best fit: LAUNCH = {launch * 1e6:.1f}e-6, '
          f'ARITHMETIC, MEMORY = {arithmetic:.2f}, {memory:.2f}')


if __name__ == '__main__':
    main()
