# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Draw samples whose random augmentation a resumed run repeats."""
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.dist import get_rank
from mmengine.registry import DATA_SAMPLERS, DATASETS
from torch.utils.data import BatchSampler, Dataset, Sampler


class SeededIndex(NamedTuple):
    """Index of a sample, and the numbers that seed its augmentation."""
    index: int
    numbers: tuple[int, ...]


def seeded(settings: Mapping, seed: int) -> dict:
    """Settings of a training loader with seeded samples.

    Args:
        settings (Mapping): Of a loader, as mmengine builds it.
        seed (int): Seed of the run.
    """
    settings = dict(settings)
    batches = settings.get('batch_sampler')
    if batches is None or isinstance(batches, Mapping):
        settings['batch_sampler'] = dict(
            type=SeededBatchSampler, batches=batches, seed=seed,
            drop_last=settings.pop('drop_last', False))
        settings['dataset'] = dict(type=SeededDataset,
                                   dataset=settings['dataset'])
    return settings


class SeededBatchSampler(Sampler):
    """Batches of :class:`SeededIndex` instead of indices.

    The numbers travel with the index, since workers fetch batches of the
    next epoch while the current one runs.

    Args:
        sampler (Sampler): Of indices.
        batch_size (int): Samples in a batch.
        batches (dict, optional): Settings of another batch sampler.
        drop_last (bool): Leave out an incomplete last batch, if ``batches``
            is None. Defaults to False.
        seed (int): Seed of the run. Defaults to 0.
    """

    def __init__(self, sampler: Sampler, batch_size: int,
                 batches: dict | None = None, drop_last: bool = False,
                 seed: int = 0) -> None:
        self.batches = BatchSampler(
            sampler, batch_size, drop_last) if batches is None else (
                DATA_SAMPLERS.build(batches, default_args=dict(
                    sampler=sampler, batch_size=batch_size)))
        # mmengine reads these, and tells the sampler the epoch.
        self.sampler = sampler
        self.batch_size = batch_size
        self.seed = seed
        #: The next epoch, and how many of its batches to leave out.
        self.epoch = 0
        self.skipped = 0

    def __iter__(self) -> Iterator[list[SeededIndex]]:
        epoch, skipped = self.epoch, self.skipped
        self.epoch, self.skipped = epoch + 1, 0
        drawn = Counter()
        for number, batch in enumerate(self.batches):
            batch = [self._draw(epoch, int(i), drawn) for i in batch]
            if number >= skipped:
                yield batch

    def _draw(self, epoch: int, index: int, drawn: Counter) -> SeededIndex:
        # A sampler may repeat a sample, and processes may share one.
        repeat = (get_rank(), drawn[index])
        drawn[index] += 1
        numbers = (self.seed, epoch, index)
        return SeededIndex(index, numbers + repeat if any(repeat) else numbers)

    def __len__(self) -> int:
        return len(self.batches)


class SeededDataset(Dataset):
    """Seed the generators before a sample is loaded and augmented.

    Everything else is the data set's: hooks may read and set its attributes.

    Args:
        dataset (Dataset | dict): Map-style data set, or its settings.
    """

    def __init__(self, dataset: Dataset | dict) -> None:
        vars(self)['dataset'] = DATASETS.build(dataset) if isinstance(
            dataset, Mapping) else dataset

    def __getitem__(self, index: SeededIndex | int) -> Any:
        if isinstance(index, SeededIndex):
            seed_generators(mix(*index.numbers))
            index = index.index
        return self.dataset[index]

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name == 'dataset' or name.startswith('__'):
            raise AttributeError(name)  # of a copy that is not filled yet
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.dataset, name, value)


def seed_generators(seed: int) -> None:
    """Seed what data pipelines draw from; a GPU's generator is left alone."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


def mix(*numbers: int) -> int:
    """One 63-bit seed out of several numbers, far apart for near ones."""
    mixed = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return int(mixed[0] >> np.uint64(1))
