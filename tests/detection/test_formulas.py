# Copyright (c) QB-Heat MM authors. All rights reserved.
"""MF-Dec beside a slow version of it, written image by image.

Positions are rows of a matrix here, attention is computed head by head, and
no mask is needed, since nothing is padded.
"""
import math

import pytest
import torch
from torch.nn import functional as F

from qbheat_mm.detection.layers.scale import make_scale

from .inputs import make_feats, make_samples

HEADS = 4


def sine(height, width, channels):
    """DETR's position embedding, (H * W, C): y in the first half."""
    rows = []
    for y in range(height):
        for x in range(width):
            row = []
            for place in ((y + 1) / (height + 1e-6), (x + 1) / (width + 1e-6)):
                for i in range(channels // 4):
                    angle = (2 * math.pi * place /
                             10000**(2 * i / (channels // 2)))
                    row += [math.sin(angle), math.cos(angle)]
            rows.append(row)
    return torch.tensor(rows)


def attend(layer, query, key, value):
    query, key, value = (
        layer.q_proj(query), layer.k_proj(key), layer.v_proj(value))
    outs = []
    for q, k, v in zip(*(t.chunk(HEADS, 1) for t in (query, key, value))):
        scores = q @ k.T / math.sqrt(q.shape[1])
        outs.append(scores.softmax(1) @ v)
    return layer.o_proj(torch.cat(outs, 1))


def mlp(layer, x):
    hidden = layer.layers[0][0](x).relu()
    return layer.layers[1](hidden)


def rows(x):
    """(1, C, H, W) to (H * W, C)."""
    return x[0].flatten(1).T


def transformer(mobile, x, pos):
    """M-F+: q and k hold the position, v does not; post-norm."""
    hw, x = x.shape[2:], rows(x)
    x = mobile.norm1(x + attend(mobile.attn, x + pos, x + pos, x))
    x = mobile.norm2(x + mlp(mobile.mlp, x))
    return x.T.unflatten(1, hw)[None]


def separable(depthwise, pointwise, x, stride=1):
    convolution, norm = depthwise
    x = F.conv2d(x, convolution.weight, stride=stride, padding=1,
                 groups=x.shape[1])
    return pointwise[1](F.conv2d(
        norm(x).clamp(0, 6), pointwise[0].weight))


def bottleneck(mobile, x, pos):
    return x + separable(mobile.depthwise, mobile.pointwise, x)


def block(layer, kind, x, query, query_pos):
    """One block: the pixels look at the queries, then the reverse."""
    hw = x.shape[2:]
    pos = sine(*hw, x.shape[1])
    pixels = rows(kind(layer.mobile, x, pos))
    tokens = query + query_pos
    pixels = pixels + attend(layer.former_to_mobile, pixels + pos, tokens,
                             tokens)
    update = layer.query_update
    query = update.norms[0](query + attend(
        update.mobile_to_former, query + query_pos, pixels + pos, pixels))
    query = update.norms[1](query + attend(
        update.self_attn, query + query_pos, query + query_pos, query))
    query = update.norms[2](query + mlp(update.mlp, query))
    return pixels.T.unflatten(1, hw)[None], query


def decode(decoder, query_pos, feats):
    """States of the queries after each block, one image, (blocks, N, C)."""
    at_8, at_16 = feats
    down = decoder.down_conv
    x = separable(down[0], down[2], at_16, stride=2)
    query = torch.zeros_like(query_pos)
    states = []
    for i, blocks in enumerate(decoder.stages):
        if i > 0:
            side = (at_16, at_8)[i - 1]
            x = F.interpolate(x, scale_factor=2, mode='bilinear')
            x = x[..., :side.shape[2], :side.shape[3]]
            up, lateral = decoder.up_convs[i - 1], decoder.laterals[i - 1]
            x = separable(up[0], up[2], x)
            x = x + lateral[1](F.conv2d(side, lateral[0].weight))
        for layer in blocks:
            if states:
                first, _, second = decoder.refine_pos
                query_pos = query_pos + second(first(query).clamp(min=0))
            x, query = block(layer, bottleneck if i else transformer, x,
                             query, query_pos)
            states.append(query)
    return torch.stack(states)


@pytest.fixture
def model(build_head):
    """Of which no weight is 0 or 1, nor any statistic."""
    model = build_head(depths=(2, 2, 1), num_heads=HEADS).eval()
    for tensor in model.decoder.state_dict().values():
        if tensor.dtype == torch.float32 and tensor.ndim == 1:
            torch.nn.init.uniform_(tensor, 0.5, 1.5)
    return model


def test_decoder_is_its_formula(model):
    sizes = [(52, 70)] * 2
    feats = make_feats(sizes)
    _, samples = make_samples(sizes)
    states = model.forward_transformer(feats, samples)['hidden_states']
    assert states.shape == (5, 2, 7, 32)
    for i in range(2):
        expected = decode(model.decoder, model.query_embedding.weight,
                          [feat[i:i + 1] for feat in feats])
        torch.testing.assert_close(states[:, i], expected, rtol=1e-3,
                                   atol=1e-4)


def test_dropout_falls_on_weights_branches_and_hidden_layers(model):
    """Nothing but the identities is left where all else is dropped."""
    for module in model.decoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 1.
    layer = model.decoder.stages[0][0].train()
    x, query = torch.randn(2, 32, 2, 3), torch.randn(2, 7, 32)
    pixels = x.flatten(2).transpose(1, 2)
    mobile, update = layer.mobile, layer.query_update
    scale = make_scale(x, None, model.decoder.encoding)
    out = mobile(x, scale)
    torch.testing.assert_close(
        out.flatten(2).transpose(1, 2), mobile.norm2(mobile.norm1(pixels)))
    out = update(query, query, pixels, scale)
    expected = query
    for norm in update.norms:
        expected = norm(expected)
    torch.testing.assert_close(out, expected)
