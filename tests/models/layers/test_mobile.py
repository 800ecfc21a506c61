# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The convolutional sub-blocks."""
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from qbheat_mm.models.layers import DownsampleMobile, LiteBottleneck, Mobile
from qbheat_mm.models.layers.mobile import ConvBN, conv_bn


def with_statistics(layers):
    """Set statistics and weights of BN to random values."""
    for module in layers.modules():
        if isinstance(module, nn.BatchNorm2d):
            for values in (*module.parameters(), *(
                    buffer for buffer in module.buffers() if buffer.ndim)):
                nn.init.uniform_(values, 0.5, 2)
    return layers


@pytest.mark.parametrize('layers, calls', [
    (conv_bn(4, 16), 0), (conv_bn(4, 16, 3, 1, 4), 0),
    (conv_bn(4, 16, 1, 1, 4, 4), 0),
    (ConvBN(*conv_bn(4, 6), nn.ReLU6(), *conv_bn(6, 2)), 0),
    (ConvBN(nn.Conv2d(4, 6, 1, bias=True), nn.BatchNorm2d(6)), 1),
    (ConvBN(nn.Conv2d(4, 6, 1, bias=False),
            nn.BatchNorm2d(6, affine=False)), 1),
    (ConvBN(nn.Linear(5, 3, bias=False), nn.BatchNorm2d(4)), 1),
    (ConvBN(nn.Conv2d(4, 6, 1, bias=False),
            nn.BatchNorm2d(6, track_running_stats=False)), 1)])
def test_bn_is_folded_into_convolutions_and_changes_nothing(layers, calls):
    layers = with_statistics(layers).eval().double()
    if not calls:
        layers[1].running_var[0] = 1e-6  # less than eps
    x, seen = torch.randn(2, 4, 3, 5).double(), []
    expected = nn.Sequential(*layers)(x)
    layers[1].register_forward_hook(lambda *_: seen.append(1))
    with torch.no_grad():
        torch.testing.assert_close(layers(x), expected)
    assert len(seen) == calls


def test_bn_with_batch_statistics_is_not_folded():
    layers, x = conv_bn(4, 6), torch.randn(2, 4, 3, 3)
    with torch.no_grad():
        torch.testing.assert_close(layers(x), nn.Sequential(*layers)(x))
    assert layers[1].num_batches_tracked == 2


def test_weights_get_gradients_in_eval_mode():
    layers = conv_bn(4, 6).eval()
    layers(torch.randn(2, 4, 3, 3)).sum().backward()
    assert all(param.grad is not None for param in layers.parameters())


def conv(layers, x, **kwargs):
    """The formula of convolution and BN in eval mode."""
    x = F.conv2d(x, layers[0].weight, **kwargs)
    norm = layers[1]
    weight = norm.weight / (norm.running_var + norm.eps).sqrt()
    bias = norm.bias - norm.running_mean * weight
    return x * weight[:, None, None] + bias[:, None, None]


def depthwise(layers, x, stride=1):
    return conv(layers, x, stride=stride, padding=1, groups=x.shape[1])


def dynamic(x, first, second):
    return torch.maximum(first * x, second * x)


@pytest.mark.parametrize('stride, out_channels', [(1, 4), (2, 4), (1, 6)])
def test_lite_bottleneck_is_its_formula(stride, out_channels):
    block = with_statistics(
        LiteBottleneck(4, 8, out_channels, stride)).eval()
    x = torch.randn(2, 4, 6, 5) * 30  # beyond the 6 of ReLU6
    expected = conv(block.pointwise,
                    depthwise(block.depthwise, x, stride).clamp(0, 6))
    if stride == 1 and out_channels == 4:
        expected = expected + x
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize('out_channels', [4, 6])
def test_mobile_is_its_formula(out_channels):
    block = with_statistics(Mobile(4, 8, out_channels)).eval()
    x, slopes = torch.randn(2, 4, 6, 5), torch.randn(4, 2, 8, 1, 1)
    hidden = dynamic(conv(block.expand, x), *slopes[:2])
    hidden = dynamic(depthwise(block.depthwise, hidden), *slopes[2:])
    expected = conv(block.project, hidden)
    if out_channels == 4:
        expected = expected + x
    torch.testing.assert_close(block(x, slopes), expected)


def test_downsample_mobile_is_its_formula():
    block = with_statistics(DownsampleMobile(4, 8, 6)).eval()
    x = torch.randn(2, 4, 6, 5)
    slopes = [torch.randn(2, channels, 1, 1) for channels in (8, 8, 24, 24)]
    x1 = conv(block.project1,
              dynamic(depthwise(block.depthwise1, x, 2), *slopes[:2]))
    x2 = conv(block.project2,
              dynamic(depthwise(block.depthwise2, x1), *slopes[2:]))
    assert x1.shape == (2, 6, 3, 3)
    torch.testing.assert_close(block(x, slopes), x1 + x2)
