# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Attention maps of Mobile-Former's two-way bridge.

Nothing here is on the training path: the maps are read by replacing, for the
time of one forward pass, the ``attention`` of the bridges' instances.
"""
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..models.layers import FormerToMobile, MobileFormerBlock, MobileToFormer
from .matrices import evaluating

#: The two bridges: Mobile->Former sums to 1 over the pixels, Former->Mobile
#: over the tokens.
MOBILE_TO_FORMER = 'mobile_to_former'
FORMER_TO_MOBILE = 'former_to_mobile'
BRIDGES = (MOBILE_TO_FORMER, FORMER_TO_MOBILE)


@dataclass(frozen=True)
class BlockMaps:
    """Attention of one block.

    Attributes:
        block (int): Number of the block, from 1, the lite bottlenecks
            counted, as in the paper's figures.
        maps (dict[str, Tensor]): By bridge, (B, heads, T, H, W). A block
            of stride 2 has H and W of its input in Mobile->Former and of its
            output in Former->Mobile.
    """
    block: int
    maps: dict[str, Tensor]


@torch.no_grad()
def attention_maps(backbone: nn.Module, images: Tensor) -> list[BlockMaps]:
    """Read the attention of all Mobile-Former blocks.

    Args:
        backbone (MobileFormer): The encoder.
        images (Tensor): Normalized images, (B, 3, H, W).

    Returns:
        list[BlockMaps]: In the order of the blocks; without those behind
        the last of ``out_indices``, which do not run.

    Raises:
        UserError: The backbone has no Mobile-Former block.
    """
    blocks = numbered_blocks(backbone)
    with evaluating(backbone), _recording(blocks.values()) as recorded:
        backbone(images)
    return [
        BlockMaps(number, {
            name: recorded[getattr(block, name)].stack()
            for name in BRIDGES
        }) for number, block in blocks.items()
        if recorded[block.mobile_to_former].calls
    ]


def numbered_blocks(backbone: nn.Module) -> dict[int, MobileFormerBlock]:
    """The blocks with bridges by their number, see :class:`BlockMaps`."""
    rows = [block for stage in getattr(backbone, 'stages', ())
            for block in stage]
    blocks = {
        number: block
        for number, block in enumerate(rows, start=1)
        if isinstance(block, MobileFormerBlock)
    }
    if not blocks:
        raise UserError(
            f'{type(backbone).__name__} has no bridge between pixels and '
            'tokens: attention maps need a MobileFormer backbone '
            '(model.backbone.type)')
    return blocks


def default_blocks(backbone: nn.Module) -> list[int]:
    """The last block of each resolution, and one amid the last one.

    For the encoders of QB-Heat these are the blocks 3, 6, 10 and 12.

    Raises:
        UserError: The backbone has no Mobile-Former block.
    """
    known = set(numbered_blocks(backbone))
    numbers, first = set(), 1
    for stage in backbone.stages:
        last = first + len(stage) - 1
        numbers.add(last)
        if stage is backbone.stages[-1]:
            numbers.add(first + len(stage) // 2)
        first = last + 1
    return sorted(numbers & known)


def token_similarity(maps: Tensor) -> Tensor:
    """Mean cosine similarity of the maps of two different tokens.

    Args:
        maps (Tensor): (B, heads, T, H, W) of at least two tokens.

    Returns:
        Tensor: (B, heads); 1 if all tokens look at the same pixels, 0 if no
        two tokens share a pixel. The paper's "diverse" is a low number.
    """
    vectors = nn.functional.normalize(maps.flatten(3), dim=-1)
    similarity = vectors @ vectors.transpose(-1, -2)
    num = similarity.shape[-1]
    diagonal = similarity.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    return (similarity.sum(dim=(-2, -1)) - diagonal) / (num * (num - 1))


class _Recorded:
    """What one bridge computed: one tensor per call, and the map's size."""

    def __init__(self) -> None:
        self.calls: list[Tensor] = []
        self.size = (0, 0)

    def stack(self) -> Tensor:
        """(B, heads, T, H, W) of either bridge.

        Mobile->Former computes (B, T, N) head by head, Former->Mobile
        (B, heads, T, N) at once.
        """
        maps = (self.calls[0] if self.calls[0].dim() == 4 else
                torch.stack(self.calls, dim=1))
        return maps.unflatten(-1, self.size)


@contextmanager
def _recording(
    blocks: Sequence[MobileFormerBlock]
) -> Iterator[dict[nn.Module, _Recorded]]:
    bridges = [getattr(block, name) for block in blocks for name in BRIDGES]
    recorded = {bridge: _Recorded() for bridge in bridges}
    handles = [bridge.register_forward_pre_hook(_note_size(recorded[bridge]))
               for bridge in bridges]
    for bridge in bridges:
        # An attribute of the instance hides the method of the class.
        bridge.attention = _note_maps(bridge, recorded[bridge])
    try:
        yield recorded
    finally:
        for handle in handles:
            handle.remove()
        for bridge in bridges:
            del bridge.attention


def _note_size(record: _Recorded):

    def before_forward(module, inputs):
        record.size = tuple(inputs[0].shape[2:])

    return before_forward


def _note_maps(bridge: MobileToFormer | FormerToMobile, record: _Recorded):
    compute = bridge.attention

    def attention(query, pixels):
        maps = compute(query, pixels)
        record.calls.append(maps.detach())
        return maps

    return attention
