# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The convolutional sub-blocks."""
import pytest
import torch
from torch import nn

from qbheat_mm.layers.mobile import ConvBN, conv_bn


def with_statistics(layers):
    """BN with statistics and weights other than those it starts with."""
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
        conv_bn(8, 16, kernel_size, 1, groups, shuffle)).eval()
    x = torch.randn(2, 8, 5, 7)
    one_by_one = layers(x)
    calls = []
    layers[1].register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        torch.testing.assert_close(layers(x), one_by_one)
    assert not calls


def test_other_layers_keep_their_places():
    layers = with_statistics(ConvBN(
        nn.ChannelShuffle(2), *conv_bn(4, 6), nn.ReLU6(), *conv_bn(6, 2)))
    layers.eval()
    x = torch.randn(2, 4, 3, 3)
    with torch.no_grad():
        torch.testing.assert_close(layers(x), nn.Sequential(*layers)(x))


def test_bn_that_computes_statistics_is_not_folded():
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
