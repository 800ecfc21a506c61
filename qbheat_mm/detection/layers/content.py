"""What computes statistics sees the images, not their padding."""
from collections.abc import Sequence

from torch import Tensor, nn

from .scale import Scale, to_map, to_sequence, zero_padding


def on_content(layers: Sequence[nn.Module], x: Tensor, scale: Scale) -> Tensor:
    """Run layers that mix no positions on the content of a map alone.

    The content of all images is shown to them as one image of height 1, so
    that in training BN (SyncBN, too) takes its mean and variance over the
    content, however much padding the batch has.

    Args:
        layers (Sequence[nn.Module]): 1x1 convolutions, norms, activations.
        x (Tensor): A map, (B, C, H, W), whatever stands in its padding.
        scale (Scale): Its scale.

    Returns:
        Tensor: (B, C', H, W), zero in the padding.
    """
    if scale.content is None:  # nothing is padded, or nothing is trained
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
    """A convolution with its BN, then layers that mix no positions.

    Args:
        depthwise (nn.Sequential): The convolution and its BN.
        pointwise (Sequence[nn.Module]): What follows.
        x (Tensor): A map, (B, C, H, W), zero in its padding.
        scale (Scale): Of the map that comes out of the convolution.

    Returns:
        Tensor: (B, C', H', W'), finite in the padding.
    """
    if not depthwise.training:
        # BN is folded into the convolution before it: do not part the two.
        return _in_turn((depthwise, *pointwise), x)
    convolution, norm = depthwise
    return on_content((norm, *pointwise), convolution(x), scale)


def _in_turn(layers: Sequence[nn.Module], x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x
