# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The decoders, compared with their formulas."""
import numpy as np
import pytest
import torch
from mmpretrain.registry import MODELS
from torch.nn import functional as F

from qbheat_mm.errors import UserError
from qbheat_mm.models.necks import (
    sincos_position_embedding,
    transformer_blocks,
)

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


@pytest.mark.parametrize('height, width', [(3, 5), (5, 3), (4, 4)])
def test_position_embedding_is_of_rows_then_of_columns(height, width):
    """As in MAE: half for each axis, sines then cosines."""
    embedding = sincos_position_embedding(height, width, 16)
    assert embedding.shape == (1, height * width, 16)
    for y in range(height):
        for x in range(width):
            expected = [
                function(position / 10000**(i / 4)) for position in (y, x)
                for function in (np.sin, np.cos) for i in range(4)
            ]
            np.testing.assert_allclose(
                embedding[0, y * width + x], expected, atol=1e-6)


def test_positions_stay_exact_under_mixed_precision():
    """The residual stream is float32, as the weights."""
    decoder = build(type='QBHeatDecoder', embed_dims=8, depth=1, num_heads=2,
                    patch_size=4)
    seen = []
    decoder.blocks[0].ln1.register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[0]))
    z = torch.zeros(1, 3, 3, 8, dtype=torch.bfloat16)
    with torch.autocast('cpu', torch.bfloat16):
        decoder(z)
    torch.testing.assert_close(
        seen[0], sincos_position_embedding(3, 3, 8), rtol=0, atol=0)
    decoder.to(torch.bfloat16)(z)
    assert seen[1].dtype == torch.bfloat16


@pytest.mark.parametrize('height, width', [(2, 3), (3, 2)])
def test_decoder_adds_positions_before_its_blocks(height, width):
    decoder = build(type='QBHeatDecoder', embed_dims=8, depth=2, num_heads=2,
                    patch_size=4)
    decoder(torch.randn(1, width, height, 8))  # of as many positions
    z = torch.randn(2, height, width, 8)
    rows = [z[:, y, x] for y in range(height) for x in range(width)]
    placed = torch.stack(rows, 1) + sincos_position_embedding(
        height, width, 8)
    expected = decoder.pixels(decoder.norm(decoder.blocks(placed)))
    assert expected.shape == (2, height * width, 48)
    torch.testing.assert_close(decoder(z), expected)


def test_decoder_predicts_chosen_patches_as_among_all():
    decoder = build(type='QBHeatDecoder', embed_dims=8, depth=2, num_heads=2,
                    patch_size=4).double()
    z = torch.randn(2, 2, 3, 8).double()
    positions = torch.tensor([[0, 5, 2], [4, 1, 3]])
    hidden = []
    decoder.blocks[-1].ffn.register_forward_pre_hook(
        lambda module, args: hidden.append(args[0].shape[1]))
    expected = torch.stack([x[i] for x, i in zip(decoder(z), positions)])
    torch.testing.assert_close(decoder(z, positions), expected)
    assert hidden == [6, 3]  # the last MLP runs only for these


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


def test_blocks_are_pre_norm_transformer_blocks():
    """With values so small that the norms' epsilon of 1e-6 counts."""
    blocks = transformer_blocks(8, depth=2, num_heads=2, mlp_ratio=3)
    assert len(blocks) == 2
    x = 1e-3 * torch.randn(2, 5, 8)
    out = x
    for block in blocks:
        for parameter in block.parameters():
            torch.nn.init.normal_(parameter, std=1e-2)
        hidden = F.layer_norm(out, (8, ), block.ln1.weight, block.ln1.bias,
                              1e-6)
        query, key, value = (
            part.unflatten(-1, (2, 4)).transpose(1, 2)
            for part in block.attn.qkv(hidden).chunk(3, -1))
        weights = (query @ key.mT / 2).softmax(-1)
        out = out + block.attn.proj(
            (weights @ value).transpose(1, 2).flatten(2))
        hidden = F.layer_norm(out, (8, ), block.ln2.weight, block.ln2.bias,
                              1e-6)
        first, second = block.ffn.layers[0][0], block.ffn.layers[1]
        assert first.out_features == 3 * 8
        out = out + second(F.gelu(first(hidden)))
    torch.testing.assert_close(blocks(x), out, rtol=1e-4, atol=1e-9)


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
