# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Random numbers that a resumed run repeats."""
import random
from collections.abc import Iterable

import numpy as np
import torch
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import IterBasedTrainLoop, Runner
from torch.utils.data import Dataset


@HOOKS.register_module()
class RandomStateHook(Hook):
    """Tie all random numbers to the seed, the rank and the progress.

    mmengine does not save random states, and seeds the workers of a data
    loader once, so that a resumed run draws other numbers than the run that
    was stopped, and workers that are started anew repeat their augmentation
    in every epoch. With this hook

    - the main process (dropout, stochastic depth, the place of the visible
      quarter) is seeded in each iteration by seed, rank and iteration;
    - sample ``i`` of epoch ``e`` is augmented by random numbers that depend
      on the seed, ``e`` and ``i`` alone.

    A run that is resumed from the checkpoint of an epoch therefore ends with
    the same weights as one that was never stopped, whatever the number of
    workers and whether they persist, as long as the seed is set
    (``randomness=dict(seed=...)``) and the device computes deterministically.

    In an iteration-based loop the augmentation is left to mmengine, which
    replays the data loader up to the resumed iteration: exact with workers,
    not with ``num_workers=0``. The maintained fork skips data without loading
    it; there only the order of the data is repeated.
    """

    # Before every hook that may draw random numbers itself.
    priority = 'VERY_HIGH'

    def __init__(self) -> None:
        # Shared memory: persistent workers read what later epochs write.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def before_train_epoch(self, runner: Runner) -> None:
        """Tell the data set, here and in the workers, the epoch."""
        if isinstance(runner.train_loop, IterBasedTrainLoop):
            return
        self._epoch.fill_(runner.epoch)
        dataset = runner.train_dataloader.dataset
        if not isinstance(vars(dataset).get('__getitems__'), _SeededFetch):
            # The method that torch's loader calls for a batch, if there is.
            dataset.__getitems__ = _SeededFetch(dataset, runner.seed,
                                                self._epoch)

    def before_train_iter(self,
                          runner: Runner,
                          batch_idx: int,
                          data_batch=None) -> None:
        """Seed the main process for the model's random numbers."""
        seed = _mix(runner.seed, get_rank(), runner.iter)
        _seed_cpu(seed)
        torch.manual_seed(seed)


class _SeededFetch:
    """Fetch the samples of a batch, each with its own random numbers.

    Args:
        dataset (Dataset): Map-style data set.
        seed (int): Seed of the run.
        epoch (Tensor): Scalar in shared memory, the running epoch.
    """

    def __init__(self, dataset: Dataset, seed: int,
                 epoch: torch.Tensor) -> None:
        self.dataset = dataset
        self.seed = seed
        self.epoch = epoch

    def __call__(self, indices: Iterable[int]) -> list:
        epoch = int(self.epoch)
        samples = []
        # Without workers this is the main process; its generators are seeded
        # anew before the model draws from them.
        for index in indices:
            _seed_cpu(_mix(self.seed, epoch, int(index)))
            samples.append(self.dataset[index])
        return samples


def _seed_cpu(seed: int) -> None:
    """Seed what data pipelines draw from; a GPU's generator is left alone."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


def _mix(*numbers: int) -> int:
    """One 63-bit seed out of several numbers, far apart for near ones."""
    mixed = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return int(mixed[0] >> np.uint64(1))
