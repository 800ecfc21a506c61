# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Steps of the shipped configs on tiny data."""
import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner

from qbheat_mm.cli import init_processes
from qbheat_mm.config.encoder import use_encoder
from qbheat_mm.errors import UserError
from qbheat_mm.utils.modules import unwrap

from ..helpers.processes import run_in_two_processes
from ..helpers.shipped import load, shrink

QBHEAT = 'qbheat/qbheat_mf-285m_1xb64-amp-coslr-80e_own-images.py'


class Done(Exception):
    """Raised after the last step."""


class StopHook(Hook):

    def __init__(self, steps):
        self.steps = steps

    def before_train(self, runner):
        self.encoder = encoder_of(runner.model)

    def after_train_iter(self, runner, batch_idx, data_batch=None,
                         outputs=None):
        self.loss = outputs['loss']
        if runner.iter + 1 == self.steps:
            raise Done


def small(name, data, work_dir):
    cfg = load(name)
    # Four sub-blocks of a quarter at stride 32 need 128 pixels.
    size = 128 if 'resnet50' in name or 'convnext' in name else 64
    kind = {'own-data': 'own', 'own-folders': 'folders'}.get(
        name.removesuffix('.py').split('_')[-1], cfg.default_scope)
    return shrink(cfg, data[kind], work_dir, size)


def take_steps(cfg, number):
    """Train for some iterations of the whole run; return the runner."""
    runner, stop = Runner.from_cfg(cfg), StopHook(number)
    runner.register_hook(stop, 'LOWEST')
    with pytest.raises(Done):
        runner.train()
    assert torch.isfinite(stop.loss)
    # Frozen encoders stay bit-identical, BN statistics included.
    backbone = unwrap(runner.model).backbone
    trained = any(p.requires_grad for p in backbone.parameters())
    for name, tensor in encoder_of(runner.model).items():
        assert trained or torch.equal(tensor, stop.encoder[name]), name
    return runner


def take_a_step(cfg):
    """Train for one iteration of the whole run; return the runner."""
    return take_steps(cfg, 1)


def encoder_of(model):
    return {name: tensor.clone()
            for name, tensor in unwrap(model).backbone.state_dict().items()}


def config_of(name, frozen, file, data, folder):
    """A config with the encoder of a file."""
    cfg = small(name, data, folder)
    if name == QBHEAT:  # four quarters of stride 32
        cfg.train_dataloader.dataset.pipeline[0].scale = 128
    cfg.model.backbone.frozen_stages = 5 if frozen else -1
    cfg.encoder = file
    try:
        use_encoder(cfg)
    except UserError as error:
        pytest.skip(str(error).replace(str(file), 'FILE'))
    return cfg


def train_on_two_processes(cfg, folder):
    run_in_two_processes(take_two_steps, folder, cfg)


def take_two_steps(rank, folder, cfg):
    cfg.launcher = 'pytorch'
    init_processes(cfg)
    take_steps(cfg, 2)
