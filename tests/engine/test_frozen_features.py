# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Features of a frozen encoder are computed once for each image."""
from types import SimpleNamespace

import pytest
import torch
from mmcv.cnn.bricks import DropPath
from mmcv.transforms import RandomFlip
from torch import nn

from qbheat_mm.engine import frozen_features
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
        self.computed = self.largest = 0

    def forward(self, images):
        self.computed += len(images)
        self.largest = max(self.largest, len(images))
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
    # A repeated image in a batch is computed twice.
    assert encoder.computed == 3 + 1 + 0 + 3 + 0
    cache.remove()
    encoder(images)
    assert encoder.computed == 7 + 6


def test_encoders_that_cannot_handle_an_empty_batch(encoder, images):
    encoder.convert = lambda maps: (maps[0].reshape(len(maps[0]), -1), )
    expected = encoder(images)
    FeatureCache(encoder, MIB)
    for _ in range(3):
        assert torch.equal(encoder(images)[0], expected[0])
    assert encoder.computed == 6 + 6 + 1 + 1


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


def test_large_images_are_encoded_one_by_one(encoder, images, monkeypatch):
    expected = encoder(images)
    monkeypatch.setattr(frozen_features, '_PIXELS_AT_ONCE', 1)
    encoder.largest = 0
    FeatureCache(encoder, MIB)
    for _ in range(2):
        for part, whole in zip(encoder(images), expected):
            torch.testing.assert_close(part, whole)
    assert encoder.largest == 1 and encoder.computed == 6 + 6


def test_half_precision_takes_half_of_the_memory(encoder, images):
    expected = encoder(images)
    whole, half = FeatureCache(encoder, MIB), None
    encoder(images)
    whole_bytes = whole.bytes
    whole.remove()
    half = FeatureCache(encoder, MIB, half=True)
    first, again = encoder(images), encoder(images)
    assert half.bytes == whole_bytes / 2
    for part, other, exact in zip(first, again, expected):
        assert part.dtype == torch.float32
        # A resumed run goes on with the numbers of an uninterrupted one.
        assert torch.equal(part, other)
        torch.testing.assert_close(part, exact, rtol=1e-3, atol=1e-3)


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
    assert encoder.computed == 6
    norm.train()
    torch.manual_seed(0)
    first, second = (encoder(images) for _ in range(2))
    assert len(first[0]) == 6
    if isinstance(norm, nn.BatchNorm2d):
        assert encoder.computed == 6 + 12
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
    assert encoder.computed == 6


@pytest.mark.parametrize('learns', [None, 'conv.weight', 'norm.bias'])
def test_only_frozen_encoders_are_cached(encoder, images, learns):
    if learns:
        encoder.get_parameter(learns).requires_grad_(True)
    runner = SimpleNamespace(
        model=SimpleNamespace(backbone=encoder),
        logger=SimpleNamespace(info=lambda message: None))
    hook = FrozenFeaturesHook()
    hook.before_train(runner)
    for _ in range(2):
        encoder(images)
    assert encoder.computed == (12 if learns else 6)
    hook.after_train(runner)
    encoder(images)
    assert encoder.computed == (18 if learns else 12)


@pytest.mark.parametrize('free, kept, report', [
    (40, 10, 'features of 10 images: 0 MiB needed, 0 MiB free'),
    (8, 4, '; 40% are kept, the others computed anew')])
def test_memory_follows_what_is_free(encoder, images, monkeypatch, free, kept,
                                     report):
    """Of four images, their mirror images and two to validate."""
    size = sum(part[0].nbytes for part in encoder(images))
    monkeypatch.setattr(frozen_features, 'free_memory',
                        lambda device: free * size)
    lines = []
    pipeline = SimpleNamespace(transforms=[RandomFlip(prob=0.5)])
    runner = SimpleNamespace(
        model=SimpleNamespace(backbone=encoder), val_loop=True,
        logger=SimpleNamespace(info=lines.append),
        train_dataloader=SimpleNamespace(
            dataset=type('Images', (list, ), dict(pipeline=pipeline))('abcd')),
        val_dataloader=SimpleNamespace(dataset='ab'))
    hook = FrozenFeaturesHook()
    hook.before_train(runner)
    for batch in (images, images.flip(3)):
        encoder(batch[:5])
        hook.after_train_iter(runner, 0)
    assert hook.cache.bytes == kept * size
    line, = lines
    assert report in line
