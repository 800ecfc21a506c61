# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Random numbers that a resumed run repeats."""
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import IterBasedTrainLoop, Runner
from torch.utils.data import DataLoader, Dataset, IterableDataset

from ...errors import UserError

# In the ``meta`` of a checkpoint: steps done of its epoch, steps it has.
_PROGRESS = 'epoch_progress'


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
      on the seed, ``e``, ``i``, the rank, and how often this rank has drawn
      ``i`` in the epoch before: a sampler may repeat a sample, and each
      repetition is augmented by itself.

    A run that is resumed from the checkpoint of an epoch therefore ends with
    the same weights as one that was never stopped, whatever the number of
    workers and whether they persist, as long as the seed is set
    (``randomness=dict(seed=...)``) and the device computes deterministically.
    So does one from the middle of an epoch (``by_epoch=False`` of the hook
    that saves): mmengine would begin the epoch anew; here the batches that
    were trained on are drawn and passed over.

    In an iteration-based loop a pass over the sampler stands for the epoch,
    and mmengine replays the data loader up to the resumed iteration. There
    the augmentation of workers is left to mmengine, whose loop starts them
    before any hook is called: exact, too, but not in the maintained fork,
    which skips data without loading it and repeats its order alone.
    """

    # Before every hook that may draw random numbers itself.
    priority = 'VERY_HIGH'

    def __init__(self) -> None:
        self._begun = _Begun()
        # Number of the epoch that runs, its first iteration, its steps.
        self._epoch: tuple[int, int, int] | None = None

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Remember how far the epoch was that a resumed run was stopped in."""
        if runner._resume:
            self._begun = _begun(checkpoint)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Write how far the epoch is, which no later run can count.

        An epoch of another run has other steps, where it had other data,
        batches or processes.
        """
        meta = checkpoint.get('meta')
        if self._epoch is None or not isinstance(meta, dict):
            return
        number, first, steps = self._epoch
        done = meta['iter'] - first if meta['epoch'] == number else 0
        meta[_PROGRESS] = dict(done=done, steps=steps)

    def before_train_epoch(self, runner: Runner) -> None:
        """Number the draws of the data loader from now on.

        Raises:
            UserError: If the run goes on within an epoch that cannot be gone
                on with.
        """
        loader = runner.train_dataloader
        by_iter = isinstance(runner.train_loop, IterBasedTrainLoop)
        begun, self._begun = self._begun, _Begun()
        if begun.done and not by_iter and not (
                _draws_indices(loader) and len(loader) == begun.steps):
            raise UserError(
                f'the checkpoint was written after {begun.done} of '
                f'{begun.steps} steps of an epoch, and these data of '
                f'{len(loader)} steps cannot be gone on with there: give the '
                'batch size, processes and data of that run, or the '
                'checkpoint of the end of an epoch')
        if not _draws_indices(loader) or by_iter and loader.num_workers:
            return
        if not isinstance(loader.batch_sampler, _NumberedBatches):
            # The loader forbids to set it by name.
            batches = _NumberedBatches(
                loader.batch_sampler, runner.seed, get_rank())
            vars(loader)['batch_sampler'] = batches
            if hasattr(loader.sampler, 'skip'):
                loader.sampler.skip = batches.skip
            # The method that torch's loader calls for a batch, if there is.
            loader.dataset.__getitems__ = _SeededFetch(loader.dataset)
        if by_iter:
            # Made, but not used, before the draws were numbered.
            iterator = runner.train_loop.dataloader_iterator
            runner.train_loop.dataloader_iterator = type(iterator)(loader)
            return
        loader.batch_sampler.epoch = runner.epoch
        loader.batch_sampler.passed_over = begun.done
        self._epoch = (runner.epoch, runner.iter - begun.done, len(loader))
        if begun.steps not in (0, len(loader)):
            runner.logger.warning(
                f'the epochs of the checkpoint had {begun.steps} steps, and '
                f'those of this run have {len(loader)}: it has other data, '
                'processes or train_dataloader.batch_size, and goes on with '
                'the learning rate of that run')

    def before_train_iter(self,
                          runner: Runner,
                          batch_idx: int,
                          data_batch=None) -> None:
        """Seed the main process for the model's random numbers."""
        seed = _mix(runner.seed, get_rank(), runner.iter)
        _seed_cpu(seed)
        torch.manual_seed(seed)


class _Begun(NamedTuple):
    """How much of an epoch was done when a checkpoint was written."""
    done: int = 0
    steps: int = 0


def _begun(checkpoint: dict) -> _Begun:
    """What a checkpoint says; nothing, if it was written without the hook."""
    try:
        progress = checkpoint['meta'][_PROGRESS]
        return _Begun(int(progress['done']), int(progress['steps']))
    except (KeyError, TypeError, ValueError):
        return _Begun()


def _draws_indices(loader: DataLoader) -> bool:
    """Whether it loads batches of samples that have an index."""
    return (isinstance(loader, DataLoader)
            and loader.batch_sampler is not None
            and not isinstance(loader.dataset, IterableDataset))


class _Draw(NamedTuple):
    """A sample that is drawn, and the numbers that seed it."""
    index: int
    numbers: tuple[int, ...]


class _NumberedBatches:
    """Batches of draws in place of batches of indices.

    The numbers travel with the index, since a worker sees a part of the
    batches only, and may fetch those of an epoch while another one runs.

    Args:
        batches (Iterable[list[int]]): The batch sampler.
        seed (int): Seed of the run.
        rank (int): Of this process.
    """

    def __init__(self, batches: Iterable[list[int]], seed: int,
                 rank: int) -> None:
        self.batches = batches
        self.seed = seed
        self.rank = rank
        self.epoch = 0
        self.passed_over = 0
        self._skipped = 0

    def skip(self, num_samples: int) -> None:
        """Begin behind so many samples, as a resumed run does.

        The maintained fork's mmengine lets the sampler begin there. Here the
        skipped indices are drawn, and no data loaded, so that repetitions are
        counted from the beginning of the run.
        """
        self._skipped = num_samples

    def __iter__(self) -> Iterator[list[_Draw]]:
        epoch, drawn = self.epoch, Counter()
        passed_over, self.passed_over = self.passed_over, 0
        for number, batch in enumerate(self.batches):
            draws = [self._draw(epoch, index, drawn) for index in batch]
            if number < passed_over:
                continue
            if self._skipped >= len(draws):
                self._skipped -= len(draws)
            else:
                yield draws
        self.epoch = epoch + 1

    def _draw(self, epoch: int, index: int, drawn: Counter) -> _Draw:
        repeat = (self.rank, drawn[int(index)])
        drawn[int(index)] += 1
        numbers = (self.seed, epoch, int(index))
        return _Draw(index, numbers + repeat if any(repeat) else numbers)

    def __len__(self) -> int:
        return len(self.batches)

    def __getattr__(self, name: str):
        # mmengine sets the epoch of the batch sampler's sampler.
        if name == 'batches' or name.startswith('__'):
            raise AttributeError(name)  # of a copy that is not filled yet
        return getattr(self.batches, name)


class _SeededFetch:
    """Fetch the samples of a batch, each with its own random numbers.

    Args:
        dataset (Dataset): Map-style data set.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __call__(self, draws: Iterable[_Draw | int]) -> list:
        samples = []
        # Without workers this is the main process; its generators are seeded
        # anew before the model draws from them.
        for draw in draws:
            if isinstance(draw, _Draw):
                _seed_cpu(_mix(*draw.numbers))
                draw = draw.index
            samples.append(self.dataset[draw])
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
