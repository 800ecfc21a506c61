"""Bridges and Former, compared with attention computed head by head."""
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from qbheat_mm.models.layers import Former, FormerToMobile, MobileToFormer


def attention(query, key, value):
    """softmax(q k / sqrt(width)) v over rows of single-head matrices."""
    scores = query @ key.T / query.shape[1]**0.5
    return torch.softmax(scores, dim=1) @ value


def by_head(query, key, value, num_heads):
    width = query.shape[1] // num_heads
    parts = [slice(i * width, (i + 1) * width) for i in range(num_heads)]
    return torch.cat(
        [attention(query[:, p], key[:, p], value[:, p]) for p in parts], dim=1)


def pixels_of(feature_map):
    """(C, H, W) to one row for each pixel."""
    return feature_map.flatten(1).T


@pytest.mark.parametrize('channels_last', [False, True])
def test_mobile_to_former_is_gated_attention_of_tokens_over_pixels(
        channels_last):
    bridge = MobileToFormer(channels=8, token_dims=12)
    x = torch.randn(2, 8, 5, 3)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    tokens = torch.randn(2, 4, 12)

    out = bridge(x, tokens)

    query_layer, gate_layer = bridge.query_gate.weight.chunk(2)
    query_bias, gate_bias = bridge.query_gate.bias.chunk(2)
    for i in range(2):
        z, pixels = tokens[i], pixels_of(x[i])
        attended = by_head(z @ query_layer.T + query_bias, pixels, pixels, 2)
        gate = z @ gate_layer.T + gate_bias
        attended = attended * 2 * torch.clamp(gate + 3, 0, 6) / 6
        expected = bridge.norm(z + bridge.proj(attended))
        torch.testing.assert_close(out[i], expected)


@pytest.mark.parametrize('channels_last', [False, True])
def test_former_to_mobile_is_attention_of_pixels_over_tokens(channels_last):
    bridge = FormerToMobile(channels=8, token_dims=12)
    x = torch.randn(2, 8, 5, 3)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    tokens = torch.randn(2, 4, 12)

    out = bridge(x, tokens)

    for i in range(2):
        key, value = bridge.key_value(tokens[i]).chunk(2, dim=1)
        expected = pixels_of(x[i]) + by_head(pixels_of(x[i]), key, value, 2)
        torch.testing.assert_close(pixels_of(out[i]), expected)


def test_former_attends_with_raw_keys_and_values():
    former = Former(token_dims=8)
    tokens = torch.randn(2, 4, 8)
    out = former(tokens)
    for i in range(2):
        z = tokens[i]
        attended = by_head(former.query(z), z, z, 4)
        z = former.norm1(z + former.proj(attended))
        expected = former.norm2(z + former.mlp(z))
        torch.testing.assert_close(out[i], expected)


class CudaFormerToMobile(FormerToMobile):
    """As under CUDA's autocast, where softmax returns float32."""

    def attention(self, key, pixels):
        return super().attention(key, pixels).float()


class LargestFloat(TorchDispatchMode):
    """Records the size of the largest float32 tensor."""
    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.dtype == torch.float32:
            self.size = max(self.size, out.numel())
        return out


def test_a_float32_attention_does_not_cast_the_map_up():
    bridge = CudaFormerToMobile(channels=64, token_dims=12)
    x = torch.randn(2, 64, 9, 7, dtype=torch.bfloat16)
    tokens = torch.randn(2, 3, 12)
    with torch.autocast('cpu', torch.bfloat16), LargestFloat() as largest:
        out = bridge(x, tokens)
    assert out.dtype == torch.bfloat16
    assert 0 < largest.size < x.numel()
