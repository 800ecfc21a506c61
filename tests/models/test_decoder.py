# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The decoder and its blocks, compared with their formulas."""
import numpy as np
import pytest
import torch
from mmpretrain.registry import MODELS
from torch.nn import functional as F

from qbheat_mm.models.layers.transformer import transformer_blocks
from qbheat_mm.models.selfsup.decoder import sincos_position_embedding


def build(**config):
    torch.manual_seed(0)
    module = MODELS.build(config)
    for parameter in module.parameters():  # no ones, no zeros
        torch.nn.init.normal_(parameter, std=0.5)
    return module


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


def test_blocks_are_those_of_mmpretrain():
    """Tensors of checkpoints fit, and outputs and gradients are equal."""
    from mmpretrain.models.backbones.vision_transformer import (
        TransformerEncoderLayer,
    )
    ours, = transformer_blocks(16, depth=1, num_heads=4, mlp_ratio=2)
    theirs = TransformerEncoderLayer(
        16, 4, 32, norm_cfg=dict(type='LN', eps=1e-6))
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 7, 16)
    results = [block(x) for block in (ours, theirs)]
    torch.testing.assert_close(*results)
    for out in results:
        out.square().sum().backward()
    for name, weight in theirs.named_parameters():
        torch.testing.assert_close(ours.get_parameter(name).grad, weight.grad)
