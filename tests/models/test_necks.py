# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Probes and V1's neck, compared with their formulas."""
import numpy as np
import pytest
import torch
from mmpretrain.registry import MODELS
from torch.nn import functional as F

from qbheat_mm.errors import UserError

CHANNELS, TOKEN_DIMS = 6, 5


def build(**config):
    torch.manual_seed(0)
    module = MODELS.build(config)
    for parameter in module.parameters():  # no ones, no zeros
        torch.nn.init.normal_(parameter, std=0.5)
    return module


@pytest.fixture
def feats():
    """Features of 3 x 4 positions and 2 tokens."""
    torch.manual_seed(1)
    return torch.randn(3, CHANNELS, 3, 4), torch.randn(3, 2, TOKEN_DIMS)


def test_pool_with_token_averages_the_pixels_and_takes_the_first_token(feats):
    pixels, tokens = feats
    pooled, = build(type='PoolWithToken')(feats)
    expected = np.concatenate(
        [pixels.numpy().mean((2, 3)), tokens.numpy()[:, 0]], axis=1)
    np.testing.assert_allclose(pooled, expected, rtol=1e-5, atol=1e-6)


def transformer_probe(**kwargs):
    return build(type='TransformerProbe', in_channels=CHANNELS,
                 token_dims=TOKEN_DIMS, embed_dims=8, num_heads=2, **kwargs)


def test_transformer_probe_averages_pixels_and_tokens(feats):
    pixels, tokens = feats
    probe = transformer_probe(depth=2)
    sequence = [probe.pixel_proj(pixels[:, :, y, x])
                for y in range(3) for x in range(4)]
    sequence += [probe.token_proj(tokens[:, i]) for i in range(2)]
    assert len(probe.blocks) == 2
    out = F.layer_norm(probe.blocks(torch.stack(sequence, 1)), (8, ),
                       probe.norm.weight, probe.norm.bias, 1e-6)
    torch.testing.assert_close(probe(feats)[0], out.sum(1) / 14)


@pytest.mark.parametrize('embed_dims, heads', [(192, 3), (384, 6), (32, 1)])
def test_transformer_probe_has_a_head_per_64_channels(embed_dims, heads):
    probe = MODELS.build(
        dict(type='TransformerProbe', in_channels=2, token_dims=2,
             embed_dims=embed_dims))
    assert probe.blocks[0].attn.num_heads == heads


def test_dropout_of_the_probe_comes_last(feats):
    probe = transformer_probe(drop_rate=0.5)
    assert_dropped(probe(feats)[0], probe.eval()(feats)[0])


def test_v1_neck_is_its_formula(feats):
    pixels, tokens = feats
    neck = build(type='MobileFormerV1Neck', in_channels=CHANNELS,
                 token_dims=TOKEN_DIMS, mid_channels=9).eval()
    torch.nn.init.normal_(neck.norm.running_mean)
    torch.nn.init.uniform_(neck.norm.running_var, 0.5, 2)

    def h_swish(x):
        return x * (x + 3).clamp(0, 6) / 6

    x = torch.cat([h_swish(pixels.flatten(2).mean(2)), tokens[:, 0]], 1)
    x = x @ neck.fc.weight.T + neck.fc.bias
    x = (x - neck.norm.running_mean) / (neck.norm.running_var + 1e-5)**0.5
    expected = h_swish(x * neck.norm.weight + neck.norm.bias)
    torch.testing.assert_close(neck(feats)[0], expected)


def test_dropout_of_the_v1_neck_comes_last(feats):
    neck = build(type='MobileFormerV1Neck', in_channels=CHANNELS,
                 token_dims=TOKEN_DIMS, mid_channels=64, drop_rate=0.5)
    neck.norm.eval()
    dropped, = neck(feats)
    assert_dropped(dropped, neck.eval()(feats)[0])


def assert_dropped(dropped, whole):
    """About half of the values are zero, the others doubled."""
    kept = dropped != 0
    assert 0.2 < kept.float().mean() < 0.8
    torch.testing.assert_close(dropped[kept], 2 * whole[kept])


@pytest.mark.parametrize('config', [
    dict(type='PoolWithToken'),
    dict(type='TransformerProbe', in_channels=CHANNELS,
         token_dims=TOKEN_DIMS, embed_dims=8)])
def test_other_outputs_are_refused(config, feats):
    decoder = build(**config)
    decoder(feats)
    for wrong in ((feats[0], feats[0]), (*feats, feats[1]), feats[1:]):
        with pytest.raises(UserError, match='encoder=FILE adapts'):
            decoder(wrong)


def test_an_encoder_without_tokens(feats):
    pixels = feats[0]
    pooled, = build(type='PoolWithToken')((pixels, ))
    assert torch.equal(pooled, pixels.mean((2, 3)))
    probe = build(type='TransformerProbe', in_channels=CHANNELS,
                  token_dims=None, embed_dims=8)
    assert probe((pixels, ))[0].shape == (len(pixels), 8)
    with pytest.raises(UserError, match='encoder=FILE adapts'):
        probe(feats)
