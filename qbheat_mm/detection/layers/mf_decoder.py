# Copyright (c) QB-Heat MM authors. All rights reserved.
"""MF-Dec: Mobile-Former's decoder for DETR over 1/32, 1/16 and 1/8."""
from collections.abc import Sequence
from functools import partial

import torch
from mmdet.models.layers import SinePositionalEncoding
from mmengine.model import BaseModule, xavier_init
from torch import Tensor, nn

from ...errors import UserError
from ...models.layers.mobile import conv_bn, depthwise
from .mf_block import BottleneckMobile, MFBlock, TransformerMobile
from .scale import (
    Scale,
    make_scale,
    on_content,
    separable,
    upsample,
    zero_padding,
)

#: Expansions of the M-F- blocks at 1/16 and 1/8 by depths. The paper doesn't
#: print them; these give its parameters and MAdds (Table 5).
PAPER_EXPANSIONS = {(5, 2, 2): (6, 4), (2, 1, 1): (2, 2)}
#: Strides of the two input maps.
STRIDES = (8, 16)


class SeparableConv(nn.Sequential):
    """3x3 depthwise, BN, ReLU6, 1x1, BN ("down-conv" and "up-conv").

    Args:
        in_channels (int): Input channels.
        out_channels (int): Output channels.
        stride (int): Stride of the depthwise convolution. Defaults to 1.
    """

    def __init__(self,
                 in_channels: int,
                 out_channels: int,
                 stride: int = 1) -> None:
        super().__init__(
            depthwise(in_channels, in_channels, stride),
            nn.ReLU6(inplace=True), conv_bn(in_channels, out_channels))

    def forward(self, x: Tensor, scale: Scale) -> Tensor:
        """(B, C_in, H, W) to (B, C_out, *scale.hw)."""
        spread, *pointwise = self
        return separable(spread, pointwise, x, scale)


class MFDecoder(BaseModule):
    """Blocks, down-conv, up-convs and laterals of MF-Dec (appendix B.3).

    The 1/16 map is downsampled to 1/32, where ``depths[0]`` M-F+ blocks run.
    For 1/16 and 1/8 the map is doubled, a lateral from the backbone is
    added, and ``depths[1]`` and ``depths[2]`` M-F- blocks run. Scales after
    the last block are not built.

    Args:
        in_channels (Sequence[int]): Channels of the maps at 1/8 and 1/16.
        depths (Sequence[int]): Blocks at 1/32, 1/16 and 1/8; (5, 2, 2) is
            MF-Dec-522 and (2, 1, 1) MF-Dec-211.
        expansions (Sequence[int], optional): Channel multipliers of the M-F-
            blocks at 1/16 and 1/8. Defaults to None: the paper's for its two
            decoders, otherwise 2.
        embed_dims (int): Width C. Defaults to 256.
        num_heads (int): Attention heads. Defaults to 8.
        mobile_mlp_dims (int): Hidden width of the MLP on the 1/32 positions.
            Defaults to 2048.
        former_mlp_dims (int): Hidden width of the queries' MLP. Defaults to
            1024.
        dropout (float): Defaults to 0.1.
    """

    def __init__(self,
                 in_channels: Sequence[int],
                 depths: Sequence[int],
                 expansions: Sequence[int] | None = None,
                 embed_dims: int = 256,
                 num_heads: int = 8,
                 mobile_mlp_dims: int = 2048,
                 former_mlp_dims: int = 1024,
                 dropout: float = 0.1) -> None:
        super().__init__()
        depths = tuple(depths)
        if len(depths) != 3 or min(depths) < 0 or not any(depths):
            raise UserError(f'depths={depths}: give the number of blocks at '
                            '1/32, 1/16 and 1/8, e.g. (5, 2, 2)')
        if expansions is None:
            expansions = PAPER_EXPANSIONS.get(depths, (2, 2))
        self.in_channels = tuple(in_channels)
        self.encoding = SinePositionalEncoding(embed_dims // 2, normalize=True)
        self.down_conv = SeparableConv(in_channels[1], embed_dims, stride=2)

        make_mobiles = [
            partial(TransformerMobile, embed_dims, num_heads, mobile_mlp_dims,
                    dropout)
        ]
        for expansion in expansions:
            make_mobiles.append(
                partial(BottleneckMobile, embed_dims, expansion))
        self.stages = nn.ModuleList()
        self.up_convs = nn.ModuleList()
        self.laterals = nn.ModuleList()
        for i, (depth, make_mobile) in enumerate(zip(depths, make_mobiles)):
            if not any(depths[i:]):
                break
            if i > 0:
                self.up_convs.append(SeparableConv(embed_dims, embed_dims))
                self.laterals.append(conv_bn(in_channels[2 - i], embed_dims))
            blocks = nn.ModuleList()
            for _ in range(depth):
                blocks.append(
                    MFBlock(make_mobile(), embed_dims, num_heads,
                            former_mlp_dims, dropout))
            self.stages.append(blocks)
        if sum(depths) > 1:
            self.refine_pos = nn.Sequential(
                nn.Linear(embed_dims, embed_dims), nn.ReLU(inplace=True),
                nn.Linear(embed_dims, embed_dims))

    def init_weights(self) -> None:
        """Xavier for all linear layers, as in DETR."""
        super().init_weights()
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                xavier_init(layer, distribution='uniform')

    def forward(
        self,
        query: Tensor,
        query_pos: Tensor,
        feats: Sequence[Tensor],
        image_sizes: Sequence[tuple[int, int]] | Tensor | None = None,
    ) -> Tensor:
        """Decode.

        Args:
            query (Tensor): Content of the queries, (B, N, C).
            query_pos (Tensor): Position embedding of the queries, (B, N, C).
            feats (Sequence[Tensor]): Maps at 1/8 and 1/16.
            image_sizes (Sequence[tuple[int, int]] | Tensor, optional): Height
                and width in pixels of each image without its padding; None
                if nothing is padded. A tensor, (B, 2), is for exported
                graphs and does not support training.

        Returns:
            Tensor: The queries after each block, (num_blocks, B, N, C).
        """
        maps, scales = {}, {}
        for stride, feat in zip(STRIDES, feats):
            # Sequences of pixels are views of channels_last maps.
            maps[stride] = feat.contiguous(memory_format=torch.channels_last)
            scales[stride] = make_scale(maps[stride], image_sizes,
                                        self.encoding, stride)
        # The strided convolution rounds odd sizes up.
        halves = [(side - 1) // 2 + 1 for side in maps[16].shape[-2:]]
        scales[32] = make_scale(
            maps[16].new_empty(query.shape[0], 1, *halves), image_sizes,
            self.encoding, 32)
        x = self.down_conv(zero_padding(maps[16], scales[16]), scales[32])
        states = []
        for i, (stride, blocks) in enumerate(zip((32, 16, 8), self.stages)):
            if i > 0:
                x = upsample(x, scales[2 * stride], scales[stride].hw)
                x = self.up_convs[i - 1](
                    zero_padding(x, scales[stride]), scales[stride])
                x = x + on_content([self.laterals[i - 1]], maps[stride],
                                   scales[stride])
            for block in blocks:
                if states:
                    query_pos = query_pos + self.refine_pos(query)
                x, query = block(x, query, query_pos, scales[stride])
                states.append(query)
        return torch.stack(states)
