# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The convolutional sub-blocks."""
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from qbheat_mm.models.layers import DownsampleMobile, LiteBottleneck, Mobile
from qbheat_mm.models.layers.mobile import ConvBN, conv_bn

#: Drops (almost) every branch; a rate of 1 would divide by zero.
ALWAYS = 1 - 1e-6


def with_statistics(layers):
    """Set statistics and weights of BN to random values."""
    for module in layers.modules():
        if isinstance(module, nn.BatchNorm2d):
            for values in (*module.parameters(), module.running_mean,
                           module.running_var):
                nn.init.uniform_(values, 0.5, 2)
    return layers


@pytest.mark.parametrize('kernel_size, groups, shuffle', [
    (1, 1, 1), (3, 8, 1), (1, 4, 4)])
def test_folding_bn_changes_nothing(kernel_size, groups, shuffle):
    layers = with_statistics(
        conv_bn(8, 16, kernel_size, 1, groups, shuffle)).eval().double()
    layers[1].running_var[0] = 1e-6  # less than eps
    x = torch.randn(2, 8, 5, 7).double()
    one_by_one = layers(x)
    calls = []
    layers[1].register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        torch.testing.assert_close(layers(x), one_by_one)
    assert not calls


def test_other_layers_run_in_order():
    layers = with_statistics(ConvBN(
        nn.ChannelShuffle(2), *conv_bn(4, 6), nn.ReLU6(), *conv_bn(6, 2)))
    layers.eval()
    x = torch.randn(2, 4, 3, 3)
    with torch.no_grad():
        torch.testing.assert_close(layers(x), nn.Sequential(*layers)(x))


def test_bn_with_batch_statistics_is_not_folded():
    layers, x = conv_bn(4, 6), torch.randn(2, 4, 3, 3)
    with torch.no_grad():
        torch.testing.assert_close(layers(x), nn.Sequential(*layers)(x))
    assert layers[1].num_batches_tracked == 2
    layers[1] = nn.BatchNorm2d(6, track_running_stats=False)
    layers.eval()
    with torch.no_grad():
        torch.testing.assert_close(layers(x), nn.Sequential(*layers)(x))


def test_weights_get_gradients_in_eval_mode():
    layers = conv_bn(4, 6).eval()
    layers(torch.randn(2, 4, 3, 3)).sum().backward()
    assert all(param.grad is not None for param in layers.parameters())


@pytest.mark.parametrize('layers', [
    [nn.Conv2d(4, 6, 1, bias=True), nn.BatchNorm2d(6)],
    [nn.Conv2d(4, 6, 1, bias=False), nn.BatchNorm2d(6, affine=False)],
    [nn.Linear(3, 3, bias=False), nn.BatchNorm2d(4)],
])
def test_other_pairs_of_layers_are_not_folded(layers):
    layers = with_statistics(ConvBN(*layers)).eval()
    x, calls = torch.randn(2, 4, 3, 3), []
    layers[1].register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        torch.testing.assert_close(layers(x), layers[1](layers[0](x)))
    assert len(calls) == 2


def conv(layers, x, **kwargs):
    """The formula of convolution and BN in eval mode."""
    x = F.conv2d(x, layers[0].weight, **kwargs)
    norm = layers[1]
    weight = norm.weight / (norm.running_var + norm.eps).sqrt()
    bias = norm.bias - norm.running_mean * weight
    return x * weight[:, None, None] + bias[:, None, None]


def depthwise(layers, x, stride=1):
    return conv(layers, x, stride=stride, padding=1, groups=x.shape[1])


def dynamic(x, slopes):
    first, second = slopes[..., None, None].chunk(2, dim=1)
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
    x, slopes = torch.randn(2, 4, 6, 5), torch.randn(2, 2, 16)
    hidden = dynamic(conv(block.expand, x), slopes[0])
    hidden = dynamic(depthwise(block.depthwise, hidden), slopes[1])
    expected = conv(block.project, hidden)
    if out_channels == 4:
        expected = expected + x
    torch.testing.assert_close(block(x, slopes), expected)


def test_downsample_mobile_is_its_formula():
    block = with_statistics(DownsampleMobile(4, 8, 6)).eval()
    x = torch.randn(2, 4, 6, 5)
    slopes = torch.randn(2, 16), torch.randn(2, 48)  # 4 * 6 channels
    x1 = conv(block.project1,
              dynamic(depthwise(block.depthwise1, x, 2), slopes[0]))
    x2 = conv(block.project2,
              dynamic(depthwise(block.depthwise2, x1), slopes[1]))
    assert x1.shape == (2, 6, 3, 3)
    torch.testing.assert_close(block(x, slopes), x1 + x2)


def test_stochastic_depth_leaves_the_identity():
    x, slopes = torch.randn(2, 4, 6, 5), torch.randn(2, 2, 16)
    lite = LiteBottleneck(4, 8, 4, drop_path_rate=ALWAYS)
    torch.testing.assert_close(lite(x), x)
    mobile = Mobile(4, 8, 4, drop_path_rate=ALWAYS)
    torch.testing.assert_close(mobile(x, slopes), x)
    down = DownsampleMobile(4, 8, 4, drop_path_rate=ALWAYS)
    half = down.project1(down.act(down.depthwise1(x), slopes[0]))
    torch.testing.assert_close(down(x, (slopes[0], torch.randn(2, 32))), half)


def test_branches_that_change_the_shape_are_never_dropped():
    x, slopes = torch.randn(2, 4, 6, 5), torch.randn(2, 2, 16)
    for layer, inputs in ((LiteBottleneck(4, 8, 6, drop_path_rate=ALWAYS),
                           [x]),
                          (LiteBottleneck(4, 8, 4, 2, drop_path_rate=ALWAYS),
                           [x]),
                          (Mobile(4, 8, 6, drop_path_rate=ALWAYS),
                           [x, slopes])):
        assert layer(*inputs).abs().mean() > 0.1
