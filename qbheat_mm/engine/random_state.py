# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Bit-identical resuming."""
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.registry import DATA_SAMPLERS, HOOKS
from mmengine.runner import IterBasedTrainLoop, Runner
from torch.utils.data import BatchSampler, Sampler

from ..errors import UserError
from .run_state import RunState

# In the `meta` of a checkpoint: steps done of its epoch, steps it has.
_PROGRESS = 'epoch_progress'


class Epoch(NamedTuple):
    """An epoch of a run."""
    number: int
    first_iter: int
    steps: int


@HOOKS.register_module()
class RandomStateHook(Hook):
    """Derive all random numbers from the seed, the rank and the progress.

    mmengine saves no random state and restarts an interrupted epoch. With
    this hook and :class:`AutoScaleRunner` a resumed run ends bit-identical to
    an uninterrupted one, on deterministic devices and with any number of
    workers:

    - the model's random numbers (dropout, visible quarter) depend on the
      seed, rank and iteration;
    - a sample's augmentation depends on the seed, epoch, index and rank, see
      :class:`SeededBatchSampler`;
    - a run that is resumed within an epoch skips the batches that it was
      trained on.
    """

    # Before hooks that draw random numbers.
    priority = 'VERY_HIGH'

    def __init__(self) -> None:
        self._resumed: dict = {}
        self._epoch: Epoch | None = None

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Remember the progress of the interrupted epoch."""
        meta = checkpoint.get('meta')
        if RunState.of(runner).resumes and isinstance(meta, dict):
            self._resumed = meta.get(_PROGRESS) or {}

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Save the progress of the epoch.

        It can't be derived later: with other data or batches, epochs have
        another number of steps.
        """
        epoch, meta = self._epoch, checkpoint['meta']
        if epoch is not None:
            is_over = meta['epoch'] != epoch.number
            done = 0 if is_over else meta['iter'] - epoch.first_iter
            meta[_PROGRESS] = dict(done=done, steps=epoch.steps)

    def before_train_epoch(self, runner: Runner) -> None:
        """Tell the loader the epoch and how much of it is done."""
        if isinstance(runner.train_loop, IterBasedTrainLoop):
            return  # mmengine replays the loader
        steps = len(runner.train_dataloader)
        batches = getattr(runner.train_dataloader, 'batch_sampler', None)
        is_seeded = isinstance(batches, SeededBatchSampler)
        done = self._resumed.get('done', 0)
        before = self._resumed.get('steps', steps)
        self._resumed = {}
        if done and not (is_seeded and steps == before):
            raise UserError(
                f'the checkpoint was written after {done} of {before} steps '
                f'of an epoch, and the epochs of this run have {steps}: set '
                'train_dataloader.batch_size, processes and data as in that '
                'run, or resume from the end of an epoch')
        if is_seeded:
            batches.epoch, batches.skipped = runner.epoch, done
        self._epoch = Epoch(runner.epoch, runner.iter - done, steps)

    def before_train_iter(self,
                          runner: Runner,
                          batch_idx: int,
                          data_batch=None) -> None:
        """Seed the main process for the model's random numbers."""
        seed = mix(runner.seed, get_rank(), runner.iter)
        seed_generators(seed)
        torch.manual_seed(seed)


class SeededSample(NamedTuple):
    """The index of a sample, and the numbers that seed its augmentation."""
    index: int
    seed: tuple[int, ...]


class SeededBatch:
    """Indices of samples; iterating over them seeds their augmentation.

    torch loads each sample before it takes the next index. The seeds travel
    with the indices, since workers fetch batches of the next epoch while the
    current one runs.

    Args:
        samples (list[SeededSample]): The samples of the batch.
    """

    def __init__(self, samples: list[SeededSample]) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[int]:
        for sample in self.samples:
            seed_generators(mix(*sample.seed))
            yield sample.index

    def __len__(self) -> int:
        return len(self.samples)


class SeededBatchSampler(Sampler):
    """torch's ``BatchSampler``, seeding the augmentation of its samples.

    Args:
        sampler, batch_size, drop_last: See ``BatchSampler``.
        batches (dict, optional): Settings of another batch sampler.
        seed (int): Seed of the run. Defaults to 0.
        fit (Callable, optional): Takes ``sampler`` and ``batch_size`` and
            returns the batch size to use.
    """

    def __init__(self, sampler: Sampler, batch_size: int,
                 batches: dict | None = None, drop_last: bool = False,
                 seed: int = 0,
                 fit: Callable[[Sampler, int], int] | None = None) -> None:
        self.given_batch_size = batch_size
        if fit is not None:
            batch_size = fit(sampler, batch_size)
        if batches is None:
            self.batches = BatchSampler(sampler, batch_size, drop_last)
        else:
            self.batches = DATA_SAMPLERS.build(batches, default_args=dict(
                sampler=sampler, batch_size=batch_size))
        # mmengine reads these, and sets the epoch of the sampler.
        self.sampler = sampler
        self.batch_size = batch_size
        self.seed = seed
        #: The next epoch, and how many of its batches to skip.
        self.epoch = 0
        self.skipped = 0

    def __iter__(self) -> Iterator[SeededBatch]:
        epoch, skipped = self.epoch, self.skipped
        self.epoch, self.skipped = epoch + 1, 0
        repeats = Counter()
        for number, batch in enumerate(self.batches):
            samples = [self._sample(epoch, int(i), repeats) for i in batch]
            if number >= skipped:
                yield SeededBatch(samples)

    def _sample(self, epoch: int, index: int,
                repeats: Counter) -> SeededSample:
        seed = (self.seed, epoch, index)
        # A sampler may repeat a sample, and processes may share one.
        repeat = (get_rank(), repeats[index])
        repeats[index] += 1
        if any(repeat):
            seed += repeat
        return SeededSample(index, seed)

    def __len__(self) -> int:
        return len(self.batches)


def seed_generators(seed: int) -> None:
    """Seed the generators of data pipelines, but not those of GPUs."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


def mix(*numbers: int) -> int:
    """Hash several numbers into a 63-bit seed."""
    mixed = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return int(mixed[0] >> np.uint64(1))
