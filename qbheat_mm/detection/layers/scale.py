# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Feature maps of padded batches; nothing depends on the padding."""
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Scale(NamedTuple):
    """Size, positions and padding of one scale of the pyramid.

    Attributes:
        hw (tuple[int, int]): Height and width of the map.
        pos (Tensor): Position embeddings of the pixels, (B, H*W, C).
        padding (Tensor, optional): (B, 1, H, W), bool, True in the padding;
            None if no image of the batch is padded.
        content (Tensor, optional): Indices of the content among the B*H*W
            positions, ascending; None if no image is padded, or in an
            exported graph.
    """
    hw: tuple[int, int]
    pos: Tensor
    padding: Tensor | None
    content: Tensor | None

    @property
    def key_mask(self) -> Tensor | None:
        """Tensor, optional: (B, 1, 1, H*W), 0 inside the image, else -inf.

        ONNX needs two more passes over the attention for a boolean mask.
        """
        if self.padding is None:
            return None
        mask = self.padding.flatten(2).unsqueeze(1)
        return torch.where(mask, -torch.inf, self.pos.new_zeros(()))


def make_scale(x: Tensor,
               image_sizes: Sequence[tuple[int, int]] | Tensor | None,
               encoding: nn.Module,
               stride: int = 1) -> Scale:
    """Describe the map ``x``.

    Args:
        x (Tensor): A map, (B, C, H, W).
        image_sizes (Sequence[tuple[int, int]] | Tensor, optional): Height
            and width of each image without its padding; None if nothing is
            padded. A tensor, (B, 2), is for exported graphs: its values are
            not read.
        encoding (nn.Module): mmdet's ``SinePositionalEncoding``.
        stride (int): Pixels of a cell, in each direction. Defaults to 1.
    """
    hw = tuple(x.shape[-2:])
    padding = content = None
    if isinstance(image_sizes, Tensor):
        padding = _padding(image_sizes, stride, hw)
    elif image_sizes is not None and _are_padded(image_sizes, stride, hw):
        # Counting the content on a GPU would wait for it.
        sizes = torch.as_tensor(image_sizes)
        content = (~_padding(sizes, stride, hw)).flatten().nonzero()[:, 0]
        content = _without_waiting(content, x.device)
        padding = _padding(_without_waiting(sizes, x.device), stride, hw)
    # Positions are normalized over the content, not over the padded map.
    pos = encoding(padding, input=x).to(x.dtype)
    return Scale(hw,
                 pos.flatten(2).transpose(1, 2),
                 None if padding is None else padding.unsqueeze(1), content)


def _are_padded(image_sizes: Sequence[tuple[int, int]], stride: int,
                hw: tuple[int, int]) -> bool:
    """Whether a map is larger than one of its images."""
    for height, width in image_sizes:
        if -(-height // stride) < hw[0] or -(-width // stride) < hw[1]:
            return True
    return False


def _without_waiting(x: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to a device without synchronizing with it."""
    if device.type == 'cuda':
        x = x.pin_memory()
    return x.to(device, non_blocking=True)


def _padding(sizes: Tensor, stride: int, hw: tuple[int, int]) -> Tensor:
    """(B, H, W), bool, True outside images of sizes (B, 2).

    Strided convolutions round up: a cell with the last few pixels of an
    image belongs to it.
    """
    ends = -(-sizes // stride)[:, :, None]
    below = torch.arange(hw[0], device=sizes.device) >= ends[:, 0]
    right = torch.arange(hw[1], device=sizes.device) >= ends[:, 1]
    return below[:, :, None] | right[:, None, :]


def zero_padding(x: Tensor, scale: Scale) -> Tensor:
    """Zero the padding of a map (B, C, H, W)."""
    if scale.padding is None:
        return x
    # 0 * nan is nan, and masked_fill changes the layout of channels_last.
    return torch.where(scale.padding, x.new_zeros(()), x)


def upsample(x: Tensor, scale: Scale, hw: tuple[int, int]) -> Tensor:
    """Double a map bilinearly, then crop it to ``hw``.

    The factor is always 2: one computed from the sizes would depend on the
    padding. At the border of the content, weights of the padding go to the
    content, as ``interpolate`` does at the border of an unpadded map.

    Args:
        x (Tensor): A map, (B, C, h, w).
        scale (Scale): Its scale.
        hw (tuple[int, int]): Output size, each within 1 of the double.

    Returns:
        Tensor: (B, C, *hw); arbitrary but finite in the padding.
    """
    x = _double(zero_padding(x, scale))
    if scale.padding is not None:
        weight = _double((~scale.padding).to(x.dtype))
        # Inside the content at least (3/4)^2 of the weight is content.
        x = x / weight.clamp(min=0.5)
    return _fitted(x, hw)


def _fitted(x: Tensor, hw: tuple[int, int]) -> Tensor:
    """Crop a map (B, C, h, w) to ``hw``, or replicate its last cells."""
    if any(isinstance(side, torch.SymInt) for side in hw):
        # A graph for all sizes cannot branch on them.
        for dim, side in zip((2, 3), hw):
            rows = torch.arange(side, device=x.device)
            x = x.index_select(dim, rows.clamp(max=x.shape[dim] - 1))
        return x
    below = max(hw[0] - x.shape[2], 0)
    right = max(hw[1] - x.shape[3], 0)
    if below or right:
        x = F.pad(x, (0, right, 0, below), mode='replicate')
    return x[..., :hw[0], :hw[1]]


def _double(x: Tensor) -> Tensor:
    return F.interpolate(
        x, scale_factor=2, mode='bilinear', align_corners=False)


def to_sequence(x: Tensor) -> Tensor:
    """(B, C, H, W) to (B, H*W, C); a view if ``x`` is channels-last."""
    return x.permute(0, 2, 3, 1).flatten(1, 2)


def to_map(x: Tensor, hw: tuple[int, int]) -> Tensor:
    """(B, H*W, C) to a channels-last view (B, C, H, W)."""
    return x.unflatten(1, hw).permute(0, 3, 1, 2)


def on_content(layers: Sequence[nn.Module], x: Tensor, scale: Scale) -> Tensor:
    """Apply pointwise layers to the content of a map only.

    The content of all images forms one image of height 1, so that in
    training BN and SyncBN compute statistics over the content.

    Args:
        layers (Sequence[nn.Module]): 1x1 convolutions, norms, activations.
        x (Tensor): A map, (B, C, H, W), with any padding.
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
        pointwise (Sequence[nn.Module]): The layers after it.
        x (Tensor): A map, (B, C, H, W), zero in its padding.
        scale (Scale): Scale of the convolution's output.

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
