# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Resumed runs draw the random numbers of uninterrupted ones."""
import functools
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.dataset import BaseDataset
from mmengine.hooks import DistSamplerSeedHook
from mmengine.model import BaseModel
from mmpretrain.datasets.samplers import RepeatAugSampler
from torch import nn
from torch.utils.data import BatchSampler, DataLoader

from qbheat_mm.engine import AutoScaleRunner, RandomStateHook
from qbheat_mm.engine.random_state import SeededBatchSampler
from qbheat_mm.errors import UserError


class RandomData(BaseDataset):
    """Samples of one number from each generator."""

    def __init__(self):
        super().__init__()

    def load_data_list(self):
        return [dict(number=i) for i in range(6)]

    def prepare_data(self, idx):
        return idx, torch.stack([
            torch.tensor(random.random()),
            torch.tensor(np.random.rand(), dtype=torch.float32),
            torch.rand(())
        ])


class Network(BaseModel):
    """A layer and dropout; records its samples."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.seen = []

    def forward(self, inputs, mode):
        indices, numbers = inputs
        self.seen += [(int(i), tuple(row.tolist()))
                      for i, row in zip(indices, numbers)]
        output = nn.functional.dropout(self.layer(numbers), 0.5, self.training)
        return dict(loss=(output - 1).square().mean())


class Reversed(BatchSampler):
    """A custom batch sampler."""

    def __init__(self, sampler, batch_size):
        super().__init__(sampler, batch_size, False)

    def __iter__(self):
        return (batch[::-1] for batch in super().__iter__())


class Identity(nn.Module):

    def forward(self, data, training):
        return dict(inputs=data)


def build(work_dir, loop, num_workers=0, persistent=False, resume=False,
          sampler=None, load_from=None, batch_size=2, batches=None,
          **checkpoint):
    torch.manual_seed(0)
    default = ('DefaultSampler' if loop.get('by_epoch', True)
               else 'InfiniteSampler')
    model = Network()
    model.data_preprocessor = Identity()
    return AutoScaleRunner(
        model=model, work_dir=str(work_dir), train_cfg=loop,
        train_dataloader=dict(
            dataset=RandomData(), batch_size=batch_size,
            num_workers=num_workers, persistent_workers=persistent,
            collate_fn=dict(type='default_collate'),
            sampler=dict(dict(type=default, shuffle=True), **(sampler or {})),
            batch_sampler=batches),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1, momentum=0.9)),
        default_hooks=dict(
            checkpoint=dict(dict(
                type='CheckpointHook', interval=2,
                by_epoch=loop.get('by_epoch', True)), **checkpoint),
            random_state=dict(type='RandomStateHook')),
        randomness=dict(seed=3), resume=resume, load_from=load_from,
        log_level='ERROR')


def epochs(number):
    return dict(by_epoch=True, max_epochs=number)


def train(work_dir, loop, **kwargs):
    """The samples in order, and the final weights."""
    runner = build(work_dir, loop, **kwargs)
    # Numbers drawn before the run must not matter.
    torch.rand(int(torch.randint(9, ())) + 1)
    runner.train()
    # Ends the workers at once, without waiting for the garbage collector.
    runner.train_dataloader._iterator = None
    if hasattr(runner.train_loop, 'dataloader_iterator'):
        runner.train_loop.dataloader_iterator._iterator = None
    return runner.model.seen, runner.model.layer.weight.detach().clone()


@pytest.fixture(scope='module')
def by_steps(tmp_path_factory):
    """A run of epochs of three steps that was saved after each step."""
    work_dir = tmp_path_factory.mktemp('by_steps')
    return work_dir, *train(work_dir, epochs(3), interval=1, by_epoch=False)


@pytest.mark.parametrize('step, num_workers, persistent', [
    (1, 0, False), (3, 0, False), (4, 2, True), (6, 2, False)])
def test_an_interrupted_epoch_is_continued(by_steps, tmp_path, step,
                                           num_workers, persistent):
    """mmengine would repeat its first batches."""
    work_dir, seen, weight = by_steps
    rest, resumed = train(
        tmp_path, epochs(3), num_workers=num_workers, persistent=persistent,
        resume=True, load_from=str(work_dir / f'iter_{step}.pth'), interval=1,
        by_epoch=False)
    assert rest == seen[2 * step:]
    assert torch.equal(resumed, weight)
    assert (tmp_path / 'iter_9.pth').exists() and not (
        tmp_path / 'iter_10.pth').exists()


def test_an_interrupted_epoch_needs_the_same_steps(by_steps, tmp_path):
    with pytest.raises(UserError, match='after 1 of 3 steps'):
        train(tmp_path, epochs(3), batch_size=3, resume=True,
              load_from=str(by_steps[0] / 'iter_4.pth'))


def test_epochs_of_other_lengths_are_complete(tmp_path):
    train(tmp_path, epochs(2), batch_size=2)
    for done in (3, 4):
        seen, _ = train(tmp_path, epochs(done), resume=True, interval=1,
                        batch_size=3)
        assert len(seen) == 6


@pytest.mark.parametrize('sampler', ['InfiniteSampler', 'DefaultSampler'])
def test_a_resumed_iteration_based_run_is_exact(
        tmp_path, sampler):

    def iterations(number):
        return dict(by_epoch=False, max_iters=number)

    sampler = dict(type=sampler)
    seen, whole = train(tmp_path / 'a', iterations(8), sampler=sampler)
    assert len(set(seen)) == 16  # in the second and third pass, too
    train(tmp_path / 'b', iterations(4), sampler=sampler)
    rest, resumed = train(tmp_path / 'b', iterations(8), sampler=sampler,
                          resume=True)
    assert rest == seen[8:16]
    assert torch.equal(resumed, whole)


RANK = 'qbheat_mm.engine.random_state.get_rank'


def test_ranks_and_iterations_seed_the_model_differently(monkeypatch):
    drawn = []
    for rank, iteration in ((0, 0), (0, 0), (1, 0), (0, 1)):
        monkeypatch.setattr(RANK, functools.partial(int, rank))
        RandomStateHook().before_train_iter(
            SimpleNamespace(seed=3, iter=iteration), 0)
        drawn.append((torch.rand(()).item(), np.random.rand(),
                      random.random()))
    assert drawn[0] == drawn[1]
    for others in zip(*drawn[1:]):
        assert len(set(others)) == 3


def drawn(epoch, num_workers=0, **sampler):
    """Index and numbers of the samples of one epoch."""
    data = RandomData()
    sampler = RepeatAugSampler(data, seed=3, **sampler)
    sampler.set_epoch(epoch)
    batches = SeededBatchSampler(sampler, 2, seed=3)
    batches.epoch = epoch
    loader = DataLoader(data, batch_sampler=batches, num_workers=num_workers)
    return [(int(i), tuple(row.tolist())) for indices, numbers in loader
            for i, row in zip(indices, numbers)]


def test_repetitions_of_a_sample_are_augmented_differently(monkeypatch):
    seen = drawn(0) + drawn(1)
    assert len({index for index, _ in seen[:6]}) == 2
    for i in range(3):
        assert len({numbers[i] for _, numbers in seen}) == 12
    assert seen == drawn(0, 2) + drawn(1, 2)
    # The first repetition is augmented like a single one.
    alone = dict(drawn(0, num_repeats=1))
    assert seen[0][1] == alone[seen[0][0]]
    # Several processes may draw a sample.
    monkeypatch.setattr(RANK, functools.partial(int, 1))
    other = drawn(0)
    assert [index for index, _ in other] == [index for index, _ in seen[:6]]
    assert not {n for _, n in other} & {n for _, n in seen}


def test_hooks_reach_the_data_set_and_other_batch_samplers(tmp_path):
    runner = build(tmp_path, epochs(2), batches=dict(type=Reversed))
    runner.register_hook(DistSamplerSeedHook())
    runner.train()
    loader = runner.train_dataloader
    assert type(loader.dataset) is RandomData
    assert loader.batch_sampler.sampler.epoch == 1
    order = [*loader.batch_sampler.sampler]
    assert [i for i, _ in runner.model.seen[-6:]] == [
        order[i] for i in (1, 0, 3, 2, 5, 4)]


@pytest.mark.parametrize('epoch', [0, 2])
def test_samples_are_seeded_by_seed_epoch_and_index(epoch):
    """Published results depend on it."""
    for index, numbers in drawn(epoch, num_repeats=1):
        seed, = np.random.SeedSequence((3, epoch, index)).generate_state(
            1, np.uint64)
        seed = int(seed) >> 1
        assert numbers[0] == torch.tensor(
            random.Random(seed).random()).item()
        assert numbers[1] == np.float32(
            np.random.RandomState(seed % 2**32).rand())
        assert numbers[2] == torch.rand(
            (), generator=torch.Generator().manual_seed(seed)).item()
