# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a frozen encoder said of an image is not computed twice."""
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from torch import nn

import projects.drawn_world.demo.classification  # noqa: F401
from qbheat_mm.engine.hooks import frozen_features_hook as module
from qbheat_mm.engine.hooks.frozen_features_hook import (
    FrozenFeaturesHook,
    _RememberingForward,
)
from qbheat_mm.errors import UserError

CONFIG = Path(__file__).parents[2] / 'configs/demo/mf-demo_tran1.py'
MIB = 2**20


class Counting(nn.Module):
    """An encoder of two outputs that counts what it computes."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False).requires_grad_(False)
        self.norm = nn.BatchNorm2d(4).requires_grad_(False).eval()
        self.computed = 0

    def forward(self, images):
        self.computed += len(images)
        maps = self.norm(self.conv(images))
        return maps, maps.mean((2, 3))


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return Counting()


@pytest.fixture
def images():
    return torch.randn(6, 3, 8, 8)


def remember(encoder, max_bytes=MIB):
    encoder.forward = _RememberingForward(encoder, max_bytes)
    return encoder


def test_each_image_is_computed_once(encoder, images):
    expected = encoder(images)
    encoder.computed = 0
    remember(encoder)
    for batch in ([0, 1, 2], [2, 3, 1], [3, 2, 1, 0], [4, 5, 4]):
        found = encoder(images[batch])
        assert isinstance(found, tuple)
        for part, whole in zip(found, expected):
            assert torch.allclose(part, whole[batch], atol=1e-6)
    assert encoder.computed == 3 + 1 + 0 + 3  # within a batch twice is new


def test_a_changed_pixel_is_another_image(encoder, images):
    remember(encoder)
    encoder(images)
    other = images.clone()
    other[0, 0, 0, 0] += 1e-6
    encoder(other)
    assert encoder.computed == 6 + 1


def test_what_was_kept_is_a_copy(encoder, images):
    remember(encoder)
    first = encoder(images)[1].clone()
    encoder(images)[1].zero_()
    assert torch.equal(encoder(images)[1], first)


def test_precisions_are_kept_apart(encoder, images):
    remember(encoder)
    encoder(images)
    with torch.autocast('cpu', torch.bfloat16):
        assert encoder(images)[0].dtype == torch.bfloat16
    assert encoder(images)[0].dtype == torch.float32
    assert encoder.computed == 12


def test_memory_ends(encoder, images):
    size = sum(part[0].nbytes for part in encoder(images))
    encoder.computed = 0
    remember(encoder, max_bytes=2 * size)
    for _ in range(3):
        encoder(images)
    assert encoder.computed == 6 + 4 + 4


def test_batch_statistics_and_luck_are_not_remembered(encoder, images):
    remember(encoder)
    encoder.norm.train()
    for _ in range(2):
        encoder(images)
    assert encoder.computed == 12


def test_images_that_never_come_again(encoder, monkeypatch):
    monkeypatch.setattr(module, 'PATIENCE', 12)
    forward = remember(encoder).forward
    for _ in range(4):
        encoder(torch.randn(6, 3, 8, 8))
    assert forward.is_off and not forward.kept and forward.seen == 12


def test_one_tensor_stays_one(encoder, images):
    both = encoder.forward
    encoder.forward = lambda images: both(images)[0]
    remember(encoder)
    for _ in range(2):
        assert encoder(images).shape == (6, 4, 6, 6)
    assert encoder.computed == 6


def test_outputs_of_another_kind_are_left_alone(encoder, images):
    both = encoder.forward
    encoder.forward = lambda images: dict(maps=both(images)[0])
    remember(encoder)
    for _ in range(2):
        assert set(encoder(images)) == {'maps'}
    assert encoder.computed == 12


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that probes a tiny random encoder for four epochs."""
    init_default_scope('mmpretrain')
    monkeypatch.setattr(Runner, '_log_env', lambda self, env_cfg: None)

    def train(hooks):
        cfg = Config.fromfile(CONFIG)
        cfg.work_dir = str(tmp_path / str(len(hooks)))
        cfg.custom_hooks = hooks
        cfg.merge_from_dict({
            'randomness.seed': 0, 'model.backbone.init_cfg': None,
            'train_dataloader.batch_size': 8,
            'train_dataloader.dataset.sizes': 'tiny',
            'val_dataloader.dataset.sizes': 'tiny',
            'train_cfg.max_epochs': 4, 'train_cfg.val_interval': 4})
        cfg.test_dataloader = cfg.val_dataloader
        runner = Runner.from_cfg(cfg)
        runner.train()
        return runner

    return train


def test_a_probe_learns_the_same(run, monkeypatch):
    made = []

    class Watched(_RememberingForward):

        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(module, '_RememberingForward', Watched)
    plain = run([]).model.state_dict()
    runner = run([dict(type='FrozenFeaturesHook')])
    for name, value in runner.model.state_dict().items():
        assert torch.allclose(value, plain[name], atol=1e-4), name
    forward, = made
    # 32 images and their mirror images in 4 epochs, 16 to be measured on
    assert forward.seen == 4 * 32 + 16
    assert forward.seen - forward.found <= 2 * 32 + 16
    assert 'forward' not in vars(runner.model.backbone)


@pytest.mark.parametrize('weight', ['conv.weight', 'norm.bias'])
def test_an_encoder_that_learns_in_part_is_left_alone(encoder, weight):
    encoder.get_parameter(weight).requires_grad_(True)
    told = []
    runner = SimpleNamespace(model=SimpleNamespace(backbone=encoder),
                             logger=SimpleNamespace(info=told.append))
    hook = FrozenFeaturesHook()
    hook.before_train(runner)
    assert 'forward' not in vars(encoder)
    hook.after_train(runner)
    assert told == ['FrozenFeaturesHook: the encoder learns, so its features '
                    'are not kept']


def test_no_memory_is_refused():
    with pytest.raises(UserError, match='max_gib'):
        FrozenFeaturesHook(max_gib=0)


def test_what_was_computed_is_nobody_elses(encoder, images):
    """A neck may work in place on features that have just been computed."""
    remember(encoder)
    first = encoder(images)[1]
    expected = first.clone()
    first.zero_()
    assert torch.equal(encoder(images)[1], expected)
