# Copyright (c) QB-Heat MM authors. All rights reserved.
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.model import BaseModel
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import nn

from qbheat_mm.errors import UserError


class Numbers(BaseDataset):

    def __init__(self):
        super().__init__()

    def load_data_list(self):
        return [dict(x=i) for i in range(4)]


class Network(BaseModel):
    """The loss becomes infinite in the step after ``breaks_after`` steps."""

    def __init__(self, width=2, breaks_after=None):
        super().__init__()
        self.backbone = nn.Linear(width, 1)
        self.head = nn.Linear(1, 1)
        self.steps, self.breaks_after = 0, breaks_after

    def forward(self, inputs=None, mode='loss', **kwargs):
        x = torch.ones(1, self.backbone.in_features)
        loss = self.head(self.backbone(x)).square().mean()
        if mode == 'predict':
            return [loss]
        if self.steps == self.breaks_after:
            loss = loss / 0.
        self.steps += 1
        return dict(loss_box=loss, loss_class=torch.tensor(0.25))


class Count(BaseMetric):

    def process(self, data_batch, data_samples):
        self.results.append(0)

    def compute_metrics(self, results):
        return dict(count=len(results))


class QuickRunner(Runner):
    """One that does not ask the machine for its compilers, for seconds."""

    def _log_env(self, env_cfg):
        pass


def build(work_dir, model=None, hooks=(), tested=False, **settings):
    loader = dict(dataset=Numbers(), batch_size=2, num_workers=0,
                  sampler=dict(type='DefaultSampler'))
    test = dict(test_dataloader=loader, test_cfg=dict(),
                test_evaluator=Evaluator(Count())) if tested else {}
    return QuickRunner(
        model=model or Network(),
        work_dir=str(work_dir),
        train_dataloader=loader,
        **test,
        train_cfg=dict(by_epoch=True, max_epochs=3),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.01)),
        custom_hooks=list(hooks),
        log_level='ERROR',
        cfg=Config(settings, format_python_code=False),
        **settings)


def train(*args, **kwargs):
    runner = build(*args, **kwargs)
    runner.train()
    return runner


def refusal(*args, **kwargs):
    with pytest.raises(UserError) as error:
        train(*args, **kwargs)
    assert '\n' not in str(error.value)
    return str(error.value)


STOP = dict(type='StopOnNonFiniteLossHook')


def test_a_loss_that_is_not_finite_stops_before_a_checkpoint(tmp_path):
    message = refusal(tmp_path, Network(breaks_after=3), [STOP])
    assert 'iteration 4 of epoch 2' in message
    assert 'loss_box inf' in message and 'loss_class 0.25' in message
    # Resuming would keep the rate that is to be lowered.
    assert f'load_from={tmp_path / "epoch_1.pth"}' in message
    assert not (tmp_path / 'epoch_2.pth').exists()


def test_a_loss_that_grows_and_stays_finite_is_told_once():
    said = []
    runner = SimpleNamespace(
        iter=4, logger=SimpleNamespace(warning=said.append))
    hook = HOOKS.build(STOP)
    for loss in (1.2, 3., 119., 0.9):
        hook.after_train_iter(runner, 0, outputs=dict(loss=torch.tensor(loss)))
    assert not said
    for loss in (121., 5e4, 5e4):
        hook.after_train_iter(runner, 0, outputs=dict(loss=torch.tensor(loss)))
    assert len(said) == 1 and '121 in iteration 5' in said[0]
    assert 'optim_wrapper.optimizer.lr' in said[0]


def test_the_stop_says_when_there_is_no_checkpoint(tmp_path):
    message = refusal(tmp_path, Network(breaks_after=0), [STOP])
    assert 'no checkpoint' in message


def test_weights_that_are_not_finite_are_told_as_such(tmp_path):
    model = Network()
    model.head.bias.data.fill_(float('nan'))
    message = refusal(tmp_path, model, [STOP])
    assert 'before the first step (head.bias)' in message
    assert 'the initialization' in message and 'lr' not in message
    file = tmp_path / 'a.pth'
    torch.save(dict(state_dict=model.state_dict()), file)
    message = refusal(tmp_path, Network(), [STOP], load_from=str(file))
    assert f"checkpoint '{file}'" in message and 'lr' not in message


def test_a_finite_loss_goes_on(tmp_path):
    assert train(tmp_path, hooks=[STOP]).iter == 6
