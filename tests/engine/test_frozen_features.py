# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Features of a frozen encoder are computed once for each image."""
from types import SimpleNamespace

import pytest
import torch
from mmcv.cnn.bricks import DropPath
from torch import nn

from qbheat_mm.engine.frozen_features import (
    FeatureCache,
    FrozenFeaturesHook,
)

MIB = 2**20


class Counting(nn.Module):
    """An encoder with two outputs that counts its images."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False).requires_grad_(False)
        self.norm = nn.BatchNorm2d(4).requires_grad_(False).eval()
        self.convert = lambda outputs: outputs
        self.computed = 0

    def forward(self, images):
        self.computed += len(images)
        maps = self.norm(self.conv(images))
        return self.convert((maps, maps.mean((2, 3))))


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return Counting()


@pytest.fixture
def images():
    return torch.randn(6, 3, 8, 8)


def test_each_image_is_computed_once(encoder, images):
    expected = encoder(images)
    encoder.computed = 0
    cache = FeatureCache(encoder, MIB)
    for batch in ([0, 1, 2], [2, 3, 1], [3, 2, 1, 0], [4, 5, 4], [5]):
        found = encoder(images[batch])
        assert isinstance(found, tuple)
        for part, whole in zip(found, expected):
            torch.testing.assert_close(part, whole[batch])
    # A cached batch costs one image, a repeated image in a batch two.
    assert encoder.computed == 3 + 1 + 1 + 3 + 1
    cache.remove()
    encoder(images)
    assert encoder.computed == 9 + 6


def test_a_changed_pixel_is_another_image(encoder, images):
    FeatureCache(encoder, MIB)
    encoder(images)
    other = images.clone()
    other[0, 0, 0, 0] += 1e-6
    encoder(other)
    assert encoder.computed == 6 + 1


def test_the_same_bytes_of_another_shape_are_another_image(encoder):
    FeatureCache(encoder, MIB)
    for shape in ((1, 3, 4, 6), (1, 3, 6, 4)):
        found = encoder(torch.zeros(shape))[0]
        assert found.shape[2:] == (shape[2] - 2, shape[3] - 2)


def test_features_are_copies(encoder, images):
    FeatureCache(encoder, MIB)
    computed = encoder(images)[1]
    expected = computed.clone()
    for features in (computed, encoder(images)[1]):
        features.zero_()  # as a neck may
        assert torch.equal(encoder(images)[1], expected)


def test_precisions_are_kept_apart(encoder, images):
    FeatureCache(encoder, MIB)
    encoder(images)
    with torch.autocast('cpu', torch.bfloat16):
        assert encoder(images)[0].dtype == torch.bfloat16
    assert encoder(images)[0].dtype == torch.float32


def test_memory_is_limited(encoder, images):
    size = sum(part[0].nbytes for part in encoder(images))
    encoder.computed = 0
    cache = FeatureCache(encoder, 2 * size)
    for _ in range(3):
        encoder(images)
    assert encoder.computed == 6 + 4 + 4 and cache.bytes == 2 * size


class FunctionalDropout(nn.Module):

    def forward(self, x):
        return nn.functional.dropout(x, 0.5, self.training)


@pytest.mark.parametrize('norm', [
    nn.BatchNorm2d(4), DropPath(0.5), nn.Dropout(0.5), FunctionalDropout()],
    ids=lambda norm: type(norm).__name__)
def test_random_and_batch_dependent_features_are_not_cached(
        encoder, images, norm):
    encoder.norm = norm.eval()
    FeatureCache(encoder, MIB)
    for _ in range(2):
        encoder(images)
    assert encoder.computed == 7
    norm.train()
    torch.manual_seed(0)
    first, second = (encoder(images) for _ in range(2))
    assert len(first[0]) == 6
    if isinstance(norm, nn.BatchNorm2d):
        assert encoder.computed == 7 + 12
    else:
        assert not torch.equal(first[0][1:], second[0][1:])


def test_batch_norm_without_running_statistics_is_not_cached(encoder, images):
    encoder.norm = nn.BatchNorm2d(4, track_running_stats=False).eval()
    expected = encoder(images[:3])[0]
    FeatureCache(encoder, MIB)
    encoder(images)
    torch.testing.assert_close(encoder(images[:3])[0], expected)


@pytest.mark.parametrize('change', [
    lambda encoder: encoder.norm.running_mean.add_(1),
    lambda encoder: setattr(encoder.conv.weight, 'data',
                            torch.ones(4, 3, 3, 3)),
    lambda encoder: encoder.load_state_dict(Counting().state_dict())])
def test_features_of_other_weights_are_forgotten(encoder, images, change):
    cache = FeatureCache(encoder, MIB)
    encoder(images)
    size = cache.bytes
    change(encoder)
    found = encoder(images[:3])
    assert cache.bytes == size / 2
    cache.remove()
    torch.testing.assert_close(found, encoder(images[:3]))


def test_a_single_output(encoder, images):
    encoder.convert = lambda outputs: outputs[0]
    FeatureCache(encoder, MIB)
    for _ in range(2):
        assert encoder(images).shape == (6, 4, 6, 6)
    assert encoder.computed == 6 + 1


@pytest.mark.parametrize('learns', [None, 'conv.weight', 'norm.bias'])
def test_only_frozen_encoders_are_cached(encoder, images, learns):
    if learns:
        encoder.get_parameter(learns).requires_grad_(True)
    runner = SimpleNamespace(
        model=SimpleNamespace(backbone=encoder),
        logger=SimpleNamespace(info=lambda message: None))
    hook = FrozenFeaturesHook()
    hook.before_train(runner)
    assert learns or hook.cache.max_bytes == 4 * 1024**3
    for _ in range(2):
        encoder(images)
    assert encoder.computed == (12 if learns else 7)
    hook.after_train(runner)
    encoder(images)
    assert encoder.computed == (18 if learns else 13)
