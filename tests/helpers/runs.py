# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tiny runs with the hooks of the shipped configs."""
import uuid

import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.hooks import Hook
from mmengine.model import BaseModel, BaseModule
from mmengine.optim import build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS
from mmengine.runner import Runner

import qbheat_mm  # noqa: F401
from qbheat_mm.engine import AutoScaleRunner
from qbheat_mm.errors import UserError


class Numbers(BaseDataset):

    def __init__(self):
        super().__init__()

    def load_data_list(self):
        return [dict(x=i) for i in range(4)]


class Encoder(BaseModule):

    def __init__(self, width, init_cfg=None):
        super().__init__(init_cfg)
        self.fc = torch.nn.Linear(width, 1)
        self.fc.requires_grad_(False)


class Network(BaseModel):

    def __init__(self, width=2, init_cfg=None):
        super().__init__()
        self.backbone = Encoder(width, init_cfg)
        self.head = torch.nn.Linear(1, 1)

    def forward(self, inputs=None, mode='loss', **kwargs):
        x = self.head(self.backbone.fc(torch.ones(1, 2)))
        if mode == 'predict':
            return [x]
        return dict(loss=(x - 3).square().mean())


class Score(BaseMetric):
    """Return the given scores one after another."""

    def __init__(self, scores):
        super().__init__()
        self.scores, self.calls = scores, 0

    def process(self, data_batch, data_samples):
        self.results.append(0)

    def compute_metrics(self, results):
        self.calls += 1
        return dict(acc=self.scores[self.calls - 1])


class Stop(Exception):
    """A kill, which nothing in the run catches."""


class StopHook(Hook):
    """Stop at the n-th call of a hook method."""
    priority = 'VERY_HIGH'

    def __init__(self, place, call=1):
        self.calls = 0

        def stop(*args, **kwargs):
            self.calls += 1
            if self.calls == call:
                raise Stop

        setattr(self, place, stop)


class QuickRunner(AutoScaleRunner):
    """Keep schedules unchanged."""
    build_param_scheduler = Runner.build_param_scheduler


def build(work_dir, epochs=3, scores=range(9), hooks=(), init_cfg=None,
          checkpoint=(), schedule=None, batch_size=2, iterations=None,
          **settings):
    """A runner with the hooks of the shipped configs.

    ``scores`` are the results of its evaluations, ``init_cfg`` that of the
    encoder, ``checkpoint`` settings of the checkpoint hook, and ``settings``
    those of the runner. With ``iterations``, all intervals count them.
    """
    torch.manual_seed(0)
    by_epoch = iterations is None
    length = (dict(max_epochs=epochs) if by_epoch
              else dict(max_iters=iterations))
    loader = dict(dataset=Numbers(), batch_size=batch_size, num_workers=0,
                  sampler=dict(type='DefaultSampler', shuffle=False))
    return QuickRunner(
        model=Network(init_cfg=init_cfg), work_dir=str(work_dir),
        # mmengine keeps the best score of runs with the same name.
        experiment_name=uuid.uuid4().hex,
        train_dataloader=loader, val_dataloader=loader, val_cfg=dict(),
        val_evaluator=Evaluator(Score(scores)),
        train_cfg=dict(by_epoch=by_epoch, val_interval=1, **length),
        optim_wrapper=dict(
            optimizer=dict(type='SGD', lr=0.01, momentum=0.9)),
        param_scheduler=schedule or dict(type='MultiStepLR', milestones=[2],
                                         by_epoch=by_epoch),
        default_hooks=dict(
            checkpoint={
                'type': 'SafeCheckpointHook', 'interval': 1,
                'max_keep_ckpts': 2, 'save_best': 'acc', 'by_epoch': by_epoch,
                **dict(checkpoint)
            },
            checkpoint_match=dict(type='StrictLoadHook'),
            resume=dict(type='ResumeHook'),
            stop=dict(type='StopOnNonFiniteLossHook')),
        custom_hooks=list(hooks), log_level='ERROR',
        randomness=dict(seed=0), **settings,
        cfg=Config(settings, format_python_code=False))


def train(*args, stop=None, **kwargs):
    runner = build(*args, **kwargs)
    if stop is None:
        runner.train()
    else:
        runner.register_hook(stop)
        with pytest.raises(Stop):
            runner.train()
    return runner


def refusal(*args, **kwargs):
    """The one-line error of a run."""
    with pytest.raises(UserError) as error:
        build(*args, **kwargs).train()
    assert '\n' not in str(error.value)
    return str(error.value)


def names(folder):
    return sorted(path.name for path in folder.glob('*.pth*'))


def resumed_epoch(work, **kwargs):
    """The epoch from which a run resumes."""
    return train(work, epochs=5, resume=True,
                 stop=StopHook('before_train'), **kwargs).epoch


def learning_rates(schedulers, epochs, epoch_length):
    """The learning rate of each step in mmengine's runner, starting at 1."""
    optimizer = build_optim_wrapper(
        torch.nn.Linear(1, 1), dict(optimizer=dict(type='SGD', lr=1.)))
    built = []
    for settings in schedulers:
        settings = dict(settings)
        by_epoch = settings.get('by_epoch', True)
        settings.setdefault('end', epochs if by_epoch
                            else epochs * epoch_length)
        built.append(PARAM_SCHEDULERS.build(settings, default_args=dict(
            optimizer=optimizer, epoch_length=epoch_length)))
    rates = []
    for step in range(epochs * epoch_length):
        rates.append(optimizer.param_groups[0]['lr'])
        for scheduler in built:
            if not scheduler.by_epoch or (step + 1) % epoch_length == 0:
                scheduler.step()
    return rates
