# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Two processes, with the hooks of the shipped configs."""
import shutil
import uuid
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.model import BaseModel

from qbheat_mm.engine import RandomStateHook  # noqa: F401
from qbheat_mm.errors import UserError
from qbheat_mm.trained.safe_load import safe_load

from ..helpers.processes import run_in_two_processes
from ..helpers.runs import QuickRunner

HOOKS = Config.fromfile(Path(__file__).parents[2] / (
    'configs/_base_/runtime_mmpretrain.py')).default_hooks


class Images(BaseDataset):
    """Eight numbers; the model scales those of the second process."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)

    def load_data_list(self):
        return [dict(x=torch.full((2, ), float(i))) for i in range(8)]


class Normalized(BaseModel):
    """Predict its own batch statistics; the loss is NaN from a step on."""

    def __init__(self, ruined_after=99):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2)
        self.ruined_after, self.steps = ruined_after, 0

    def forward(self, x=None, mode='loss', **kwargs):
        if mode == 'predict':
            return [self.norm.running_mean.mean().item()] * len(x)
        x = torch.stack(list(x)) * (1 + 5 * dist.get_rank())
        self.steps += 1
        if dist.get_rank() == 1 and self.steps > self.ruined_after:
            x = x * float('nan')
        return dict(loss=(self.norm(x) - 1).square().mean())


class Mean(BaseMetric):

    def process(self, data_batch, data_samples):
        self.results += data_samples

    def compute_metrics(self, results):
        assert len(results) == 8
        return dict(mean=sum(results) / 8)


def build(folder, length, ruined_after=99, hooks=(), checkpoint=(),
          pipeline=(), **given):
    torch.manual_seed(0)
    loader = dict(dataset=Images(), batch_size=2, num_workers=0,
                  sampler=dict(type='DefaultSampler', shuffle=False))
    by_epoch = length['by_epoch']
    return QuickRunner(
        model=Normalized(ruined_after), work_dir=str(folder),
        experiment_name=uuid.uuid4().hex,
        train_dataloader=dict(loader, dataset=Images(pipeline=pipeline)),
        val_dataloader=loader, val_cfg=dict(), val_evaluator=Evaluator(Mean()),
        train_cfg=length,
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.01)),
        default_hooks={
            **{name: hook for name, hook in HOOKS.items()
               if name not in ('export_encoder', 'visualization')},
            'checkpoint': {**HOOKS.checkpoint, 'by_epoch': by_epoch,
                           'interval': 1, **dict(checkpoint)}},
        custom_hooks=list(hooks), launcher='pytorch', log_level='ERROR',
        randomness=dict(seed=0), cfg=Config(dict(
            model_wrapper_cfg=dict(
                type='MMDistributedDataParallel', device_ids=None,
                broadcast_buffers=False)), format_python_code=False),
        **given)


def train(*args, **kwargs):
    """The last metric, or the error."""
    runner = build(*args, **kwargs)
    try:
        runner.train()
        return float(runner.message_hub.get_scalar('val/mean').current())
    except UserError as error:
        return str(error)


def epochs(number):
    return dict(by_epoch=True, max_epochs=number)


def cached_pixel(rank, folder):
    """A pixel that each process finds after the second has kept it."""
    runner = build(folder, epochs(1), pipeline=[
        dict(type='LoadRandomResizedCrop', scale=8, cache='ram')])
    data = runner.build_train_loop(epochs(1)).dataloader.dataset
    cache = data.pipeline.transforms[0].cache
    if rank == 1:
        cache.put(3, (1, 1), 1, np.full((1, 1, 3), 7, np.uint8))
    dist.barrier()
    return int(cache.get(3)[2].max())


def run_all(rank, folder):
    """Save the metric or error of this process for each case."""
    keep = dict(checkpoint=dict(max_keep_ckpts=-1))
    found = dict(
        pixel=cached_pixel(rank, folder / 'cache'),
        epochs=train(folder / 'epochs', epochs(4), **keep),
        iterations=train(
            folder / 'iterations',
            dict(by_epoch=False, max_iters=4, val_interval=2),
            hooks=[dict(type='EMAHook', update_buffers=True)]))
    # Killed after two epochs.
    if rank == 0:
        shutil.copytree(folder / 'epochs', folder / 'killed')
        for file in ('epoch_3.pth', 'epoch_4.pth', 'last_checkpoint'):
            (folder / 'killed' / file).unlink()
    dist.barrier()
    found['different'] = train(folder / ('killed', 'empty')[rank], epochs(4),
                               resume=True, **keep)
    found['resumed'] = train(folder / 'killed', epochs(4), resume=True, **keep)
    # Last, since it breaks the connection.
    try:
        found['ruined'] = train(
            folder / 'ruined', epochs(3), ruined_after=3,
            checkpoint=dict(max_keep_ckpts=1))
    except RuntimeError:  # of gloo, if the other process has stopped
        found['ruined'] = ''
    torch.save(found, folder / f'{rank}.pt')


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """The folder, and what each process found."""
    folder = tmp_path_factory.mktemp('processes')
    run_in_two_processes(run_all, folder)
    return folder, [torch.load(folder / f'{rank}.pt') for rank in range(2)]


def test_processes_share_decoded_images(run):
    assert [found['pixel'] for found in run[1]] == [7, 7]


@pytest.mark.parametrize('name, file', [('epochs', 'epoch_4.pth'),
                                        ('iterations', 'iter_4.pth')])
def test_the_saved_network_is_validated(run, name, file):
    """Instead of one with the batch statistics of each process."""
    folder, (first, second) = run
    state = safe_load(folder / name / file)['state_dict']
    mean = state['norm.running_mean'].mean().item()
    assert first[name] == second[name] == pytest.approx(mean)
    assert mean > 0.1


def test_processes_resume_from_one_checkpoint(run):
    """Otherwise gradients of different networks would be averaged."""
    for found in run[1]:
        assert 'different checkpoints' in found['different']


def test_a_resumed_run_ends_with_the_same_weights(run):
    folder, (first, second) = run
    assert first['resumed'] == second['resumed'] == first['epochs']
    whole, resumed = (safe_load(folder / name / 'epoch_4.pth')['state_dict']
                      for name in ('epochs', 'killed'))
    for name, tensor in whole.items():
        assert torch.equal(tensor, resumed[name]), name


def test_nan_in_one_process_costs_no_checkpoint(run):
    folder, (first, second) = run
    assert 'the loss is not finite in iteration 4' in second['ruined']
    left, = (folder / 'ruined').glob('epoch_*.pth')
    state = safe_load(left)['state_dict']
    assert all(torch.isfinite(value).all() for value in state.values())
    if first['ruined']:
        assert str(left) in first['ruined']
