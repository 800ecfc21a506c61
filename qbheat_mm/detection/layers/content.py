"""Batch statistics over the content of padded images."""
from collections.abc import Sequence

from torch import Tensor, nn

from .scale import Scale, to_map, to_sequence, zero_padding


def on_content(layers: Sequence[nn.Module], x: Tensor, scale: Scale) -> Tensor:
    """Apply pointwise layers to the content of a map only.

    The content of all images forms one image of height 1, so that in
    training BN and SyncBN compute statistics over the content.

    Args:
        layers (Sequence[nn.Module]): 1x1 convolutions, norms, activations.
        x (Tensor): A map, (B, C, H, W), whatever stands in its padding.
        scale (Scale): Its scale.

    Returns:
        Tensor: (B, C', H, W), zero in the padding.
    """
    if scale.content is None:
        return zero_padding(_in_turn(layers, x), scale)
    num_images = len(x)
    positions = to_sequence(x).flatten(0, 1)
    content = positions.index_select(0, scale.content).unsqueeze(0)
    content = _in_turn(layers, to_map(content, (1, -1)))
    content = to_sequence(content).squeeze(0)
    positions = content.new_zeros(len(positions), content.shape[1])
    positions.index_copy_(0, scale.content, content)
    return to_map(positions.unflatten(0, (num_images, -1)), scale.hw)


def separable(depthwise: nn.Sequential, pointwise: Sequence[nn.Module],
              x: Tensor, scale: Scale) -> Tensor:
    """A depthwise convolution with its BN, then pointwise layers.

    Args:
        depthwise (nn.Sequential): The convolution and its BN.
        pointwise (Sequence[nn.Module]): What follows.
        x (Tensor): A map, (B, C, H, W), zero in its padding.
        scale (Scale): Of the convolution's output.

    Returns:
        Tensor: (B, C', H', W'), finite in the padding.
    """
    if not depthwise.training:
        # BN is folded into its convolution.
        return _in_turn((depthwise, *pointwise), x)
    convolution, norm = depthwise
    return on_content((norm, *pointwise), convolution(x), scale)


def _in_turn(layers: Sequence[nn.Module], x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x
