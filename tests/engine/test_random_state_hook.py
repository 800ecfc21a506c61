# Copyright (c) QB-Heat MM authors. All rights reserved.
import functools
import random

import numpy as np
import pytest
import torch
from mmengine.dataset import BaseDataset
from mmengine.model import BaseModel
from mmengine.runner import Runner, loops
from torch import nn

from qbheat_mm.engine import RandomStateHook


class RandomData(BaseDataset):
    """Samples that hold one number from each generator."""

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
    """Dropout and a layer; remembers the samples that it got."""

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


class Identity(nn.Module):

    def forward(self, data, training):
        return dict(inputs=data)


def build(work_dir, loop, num_workers=0, persistent=False, resume=False):
    torch.manual_seed(0)
    model = Network()
    model.data_preprocessor = Identity()
    return Runner(
        model=model,
        work_dir=str(work_dir),
        train_dataloader=dict(
            dataset=RandomData(), batch_size=2, num_workers=num_workers,
            persistent_workers=persistent,
            collate_fn=dict(type='default_collate'),
            sampler=dict(type='DefaultSampler' if loop.get('by_epoch', True)
                         else 'InfiniteSampler', shuffle=True)),
        train_cfg=loop,
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1, momentum=0.9)),
        default_hooks=dict(
            checkpoint=dict(type='CheckpointHook', interval=2,
                            by_epoch=loop.get('by_epoch', True)),
            random_state=dict(type='RandomStateHook')),
        randomness=dict(seed=3),
        resume=resume,
        log_level='ERROR')


def epochs(number):
    return dict(by_epoch=True, max_epochs=number)


def train(work_dir, loop, **kwargs):
    """Samples in their order, and the weights at the end."""
    runner = build(work_dir, loop, **kwargs)
    # Whatever was drawn before the run must not matter.
    torch.rand(int(torch.randint(9, ())) + 1)
    runner.train()
    # Workers end at once when their iterator does; the garbage collector
    # would come late and then wait for each.
    runner.train_dataloader._iterator = None
    if hasattr(runner.train_loop, 'dataloader_iterator'):
        runner.train_loop.dataloader_iterator._iterator = None
    return runner.model.seen, runner.model.layer.weight.detach().clone()


@pytest.fixture(scope='module')
def uninterrupted(tmp_path_factory):
    return train(tmp_path_factory.mktemp('runs'), epochs(4))


def test_hook_is_registered():
    from mmengine.registry import HOOKS
    assert isinstance(HOOKS.build(dict(type='RandomStateHook')),
                      RandomStateHook)


def test_augmentation_differs_between_epochs_and_samples(uninterrupted):
    seen, _ = uninterrupted
    assert len(seen) == 24
    assert len({numbers for _, numbers in seen}) == 24
    # Each generator alone, too.
    for i in range(3):
        assert len({numbers[i] for _, numbers in seen}) == 24


@pytest.mark.parametrize('num_workers,persistent', [(2, False), (2, True),
                                                    (3, True)])
def test_workers_change_nothing(tmp_path, uninterrupted, num_workers,
                                persistent):
    seen, weight = train(tmp_path, epochs(4), num_workers=num_workers,
                         persistent=persistent)
    assert seen == uninterrupted[0]
    assert torch.equal(weight, uninterrupted[1])


@pytest.mark.parametrize('num_workers,persistent', [(0, False), (2, False),
                                                    (2, True)])
def test_a_resumed_run_ends_with_the_same_weights(tmp_path, uninterrupted,
                                                  num_workers, persistent):
    how = dict(num_workers=num_workers, persistent=persistent)
    seen, _ = train(tmp_path, epochs(2), **how)
    rest, weight = train(tmp_path, epochs(4), resume=True, **how)
    assert seen + rest == uninterrupted[0]
    assert torch.equal(weight, uninterrupted[1])


@pytest.mark.skipif(
    hasattr(loops._InfiniteDataloaderIterator, 'skip_iter'),
    reason='this mmengine skips data instead of replaying it')
def test_a_resumed_iteration_based_run_is_exact_with_workers(tmp_path):

    def iterations(number):
        return dict(by_epoch=False, max_iters=number)

    seen, whole = train(tmp_path / 'a', iterations(8), num_workers=2)
    train(tmp_path / 'b', iterations(4), num_workers=2)
    rest, resumed = train(tmp_path / 'b', iterations(8), num_workers=2,
                          resume=True)
    assert rest == seen[8:16]
    assert torch.equal(resumed, whole)


def test_ranks_draw_different_numbers_in_the_model(tmp_path, monkeypatch):
    place = 'qbheat_mm.engine.hooks.random_state_hook.get_rank'
    weights = []
    for rank in (0, 0, 1):
        monkeypatch.setattr(place, functools.partial(int, rank))
        seen, weight = train(tmp_path / str(len(weights)), epochs(1))
        weights.append(weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
