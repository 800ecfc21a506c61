"""Timing several steps side by side."""
import time
from collections.abc import Callable, Mapping

import torch


def time_in_turn(steps: Mapping[str, Callable[[], object]], repeats: int,
                 device: str, warmups: int = 3) -> dict[str, list[float]]:
    """Seconds of each step, taken in turn.

    Whatever else the machine does then hits all steps alike, and the ratio of
    their medians means more than the medians.

    Args:
        steps (Mapping[str, Callable]): Each is called without arguments.
        repeats (int): Times that each step is taken.
        device (str): Of the steps; on CUDA their end is waited for.
        warmups (int): Rounds before, which do not count. Defaults to 3.

    Returns:
        dict[str, list[float]]: ``repeats`` durations for each step.
    """
    times = {name: [] for name in steps}
    for repeat in range(repeats + warmups):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if device.startswith('cuda'):
                torch.cuda.synchronize()
            if repeat >= warmups:
                times[name].append(time.perf_counter() - start)
    return times
