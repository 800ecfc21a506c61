"""The block of Mobile-Former's detection decoder (MF-Dec)."""
from mmcv.cnn.bricks.transformer import FFN
from torch import Tensor, nn

from qbheat_mm.models.layers import LiteBottleneck

from .attention import Attention
from .content import separable
from .scale import Scale, to_map, to_sequence, zero_padding


class TransformerMobile(nn.Module):
    """Mobile part of M-F+: a transformer block on the positions (post-norm).

    Args:
        embed_dims (int): Width C.
        num_heads (int): Attention heads.
        mlp_dims (int): Hidden width of the MLP.
        dropout (float): On attention weights and residual branches.
    """

    def __init__(self, embed_dims: int, num_heads: int, mlp_dims: int,
                 dropout: float) -> None:
        super().__init__()
        self.attn = Attention(embed_dims, num_heads, 'qkvo', dropout)
        self.mlp = FFN(embed_dims, mlp_dims, ffn_drop=dropout)
        self.norm1 = nn.LayerNorm(embed_dims)
        self.norm2 = nn.LayerNorm(embed_dims)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, scale: Scale) -> Tensor:
        """(B, C, H, W) to (B, C, H, W)."""
        x = to_sequence(x)
        placed = x + scale.pos
        x = self.norm1(
            x + self.drop(self.attn(placed, placed, x, scale.key_mask)))
        return to_map(self.norm2(self.mlp(x)), scale.hw)


class BottleneckMobile(LiteBottleneck):
    """Mobile part of M-F-: a lite bottleneck that sees no padding.

    Args:
        embed_dims (int): Width C.
        expansion (int): Channel multiplier of the depthwise convolution.
    """

    def __init__(self, embed_dims: int, expansion: int) -> None:
        super().__init__(embed_dims, expansion * embed_dims, embed_dims)

    def forward(self, x: Tensor, scale: Scale) -> Tensor:
        """(B, C, H, W) to (B, C, H, W)."""
        x = zero_padding(x, scale)
        return x + separable(self.depthwise, (self.act, self.pointwise), x,
                             scale)


class QueryUpdate(nn.Module):
    """Mobile->Former, then Former: the queries look, confer and think.

    Args:
        embed_dims (int): Width C.
        num_heads (int): Attention heads.
        mlp_dims (int): Hidden width of the MLP.
        dropout (float): On attention weights and residual branches.
    """

    def __init__(self, embed_dims: int, num_heads: int, mlp_dims: int,
                 dropout: float) -> None:
        super().__init__()
        self.mobile_to_former = Attention(embed_dims, num_heads, 'qo', dropout)
        self.self_attn = Attention(embed_dims, num_heads, 'qkvo', dropout)
        self.mlp = FFN(embed_dims, mlp_dims, ffn_drop=dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dims) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(self, query: Tensor, query_pos: Tensor, pixels: Tensor,
                scale: Scale) -> Tensor:
        """Queries (B, N, C) and pixels (B, H*W, C) to queries (B, N, C)."""
        seen = self.mobile_to_former(query + query_pos, pixels + scale.pos,
                                     pixels, scale.key_mask)
        query = self.norms[0](query + self.drop(seen))
        placed = query + query_pos
        told = self.self_attn(placed, placed, query)
        query = self.norms[1](query + self.drop(told))
        return self.norms[2](self.mlp(query))


class MFBlock(nn.Module):
    """Mobile, Former->Mobile, Mobile->Former, Former.

    The backbone's block begins with Mobile->Former. Here the same cycle is
    cut one half later: what the last block does to the pixels then still
    reaches the queries, instead of being computed for nothing (and found
    without a gradient by distributed training). Parameters and MAdds do not
    change.

    Args:
        mobile (nn.Module): :class:`TransformerMobile` (M-F+) or
            :class:`BottleneckMobile` (M-F-).
        embed_dims (int): Width C.
        num_heads (int): Attention heads.
        mlp_dims (int): Hidden width of Former's MLP.
        dropout (float): Dropout.
    """

    def __init__(self, mobile: nn.Module, embed_dims: int, num_heads: int,
                 mlp_dims: int, dropout: float) -> None:
        super().__init__()
        self.mobile = mobile
        self.former_to_mobile = Attention(embed_dims, num_heads, 'kv', dropout)
        self.query_update = QueryUpdate(embed_dims, num_heads, mlp_dims,
                                        dropout)

    def forward(self, x: Tensor, query: Tensor, query_pos: Tensor,
                scale: Scale) -> tuple[Tensor, Tensor]:
        """Update the map (B, C, H, W) and the queries (B, N, C)."""
        pixels = to_sequence(self.mobile(x, scale))
        # The values hold the position, too: before the first Mobile->Former
        # it is all that a query has.
        tokens = query + query_pos
        pixels = pixels + self.former_to_mobile(pixels + scale.pos, tokens,
                                                tokens)
        query = self.query_update(query, query_pos, pixels, scale)
        return to_map(pixels, scale.hw), query
