# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Initial weights of each part."""
import pytest
import torch
from mmpretrain.registry import MODELS
from torch import nn

import qbheat_mm.models  # noqa: F401

ARCH = dict(
    stem=32, tokens=(6, 64), conv=96,
    stages=[[('lite', 64, 32)], [('mf-down', 96, 48), ('mf', 96, 48)]])


def initialized(**config):
    torch.manual_seed(0)
    module = MODELS.build(config)
    module.init_weights()
    return module.requires_grad_(False)


def layers_of(module, kind):
    layers = [m for m in module.modules() if isinstance(m, kind)]
    assert layers
    return layers


def assert_normal(weight, std):
    """Within the sampling error."""
    count = weight.numel()
    assert abs(weight.mean()) < 4 * std / count**0.5
    assert weight.std() == pytest.approx(std, rel=4 / count**0.5 + 0.02)


def assert_uniform(weight, bound):
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.8 * bound
    assert weight.std() == pytest.approx(
        bound / 3**0.5, rel=4 / weight.numel()**0.5)


def test_encoder():
    """Kaiming normal (fan out), small linear layers, norms at 1."""
    encoder = initialized(type='MobileFormer', arch=ARCH)
    for layer in layers_of(encoder, nn.Conv2d):
        area = layer.kernel_size[0]**2
        fan_out = layer.out_channels * area // layer.groups
        if layer.groups == 1:
            assert_normal(layer.weight, (2 / fan_out)**0.5)
    for layer in layers_of(encoder, nn.Linear):
        assert_normal(layer.weight, 0.02)
        assert not layer.bias.any()
    for layer in layers_of(encoder, (nn.BatchNorm2d, nn.LayerNorm)):
        assert (layer.weight == 1).all() and not layer.bias.any()
    assert_normal(encoder.tokens, 1.)


def test_predictor():
    predictor = initialized(
        type='QBHeatPredictor', in_channels=96, embed_dims=64)
    proj = predictor.proj.weight
    assert_normal(proj, (2 / (96 + 64))**0.5)
    for models in (predictor.half_step, predictor.quarter_step):
        assert_normal(models.weight, 0.02)


def test_decoder_as_in_mae():
    decoder = initialized(
        type='QBHeatDecoder', embed_dims=64, depth=2, num_heads=4)
    for layer in layers_of(decoder, nn.Linear):
        fans = layer.in_features + layer.out_features
        assert_uniform(layer.weight, (6 / fans)**0.5)
        assert not layer.bias.any()


@pytest.mark.parametrize('config, std', [
    (dict(type='TransformerProbe', embed_dims=64, depth=2), 0.02),
    (dict(type='MobileFormerV1Neck', mid_channels=128), 0.01),
])
def test_classifying_necks(config, std):
    neck = initialized(in_channels=96, token_dims=64, **config)
    for layer in layers_of(neck, nn.Linear):
        assert_normal(layer.weight, std)
        assert not layer.bias.any()


def test_init_cfg_overrides_the_default():
    ones = dict(type='Constant', layer='Linear', val=3.)
    for config in (dict(type='MobileFormer', arch=ARCH),
                   dict(type='QBHeatPredictor', in_channels=8, embed_dims=8),
                   dict(type='QBHeatDecoder', embed_dims=8, num_heads=2),
                   dict(type='TransformerProbe', in_channels=8, token_dims=8,
                        embed_dims=8),
                   dict(type='MobileFormerV1Neck', in_channels=8,
                        token_dims=8, mid_channels=8)):
        module = initialized(init_cfg=ones, **config)
        for layer in layers_of(module, nn.Linear):
            assert (layer.weight == 3).all()
