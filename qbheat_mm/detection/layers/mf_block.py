# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The block of Mobile-Former's detection decoder (MF-Dec)."""
import torch.nn.functional as F
from mmcv.cnn.bricks.transformer import FFN
from torch import Tensor, nn

from ...models.layers import LiteBottleneck
from .scale import Scale, separable, to_map, to_sequence, zero_padding


class Attention(nn.Module):
    """Multi-head attention, batch first.

    Mobile-Former does not project pixels, of which there are many:
    Mobile->Former projects queries and output, Former->Mobile keys and
    values, self-attention all four.

    Args:
        embed_dims (int): Width C of queries, keys, values and output.
        num_heads (int): Number of heads; must divide ``embed_dims``.
        projections (str): The projected ones among ``'q'`` (queries), ``'k'``
            (keys), ``'v'`` (values) and ``'o'`` (output).
        dropout (float): Dropout on the attention weights.
    """

    def __init__(self,
                 embed_dims: int,
                 num_heads: int,
                 projections: str,
                 dropout: float = 0.) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        for name in 'qkvo':
            setattr(
                self, f'{name}_proj',
                nn.Linear(embed_dims, embed_dims)
                if name in projections else nn.Identity())

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self,
                query: Tensor,
                key: Tensor,
                value: Tensor,
                key_mask: Tensor | None = None) -> Tensor:
        """Attend.

        Args:
            query (Tensor): (B, N, C).
            key (Tensor): (B, M, C).
            value (Tensor): (B, M, C).
            key_mask (Tensor, optional): (B, 1, 1, M), 0 for visible keys,
                at least one per image, -inf for the others.

        Returns:
            Tensor: (B, N, C).
        """
        query = self._split_heads(self.q_proj(query))
        if key_mask is not None:
            key_mask = key_mask.to(query.dtype)
        out = F.scaled_dot_product_attention(
            query,
            self._split_heads(self.k_proj(key)),
            self._split_heads(self.v_proj(value)),
            attn_mask=key_mask,
            dropout_p=self.dropout if self.training else 0.)
        return self.o_proj(out.transpose(1, 2).flatten(2))


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
        query = x + scale.pos
        x = self.norm1(
            x + self.drop(self.attn(query, query, x, scale.key_mask)))
        return to_map(self.norm2(self.mlp(x)), scale.hw)


class BottleneckMobile(LiteBottleneck):
    """Mobile part of M-F-: a lite bottleneck that ignores padding.

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
    """Mobile->Former, then Former: attend to pixels and each other, MLP.

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
        x = self.mobile_to_former(query + query_pos, pixels + scale.pos,
                                  pixels, scale.key_mask)
        query = self.norms[0](query + self.drop(x))
        key = query + query_pos
        query = self.norms[1](
            query + self.drop(self.self_attn(key, key, query)))
        return self.norms[2](self.mlp(query))


class MFBlock(nn.Module):
    """Mobile, Former->Mobile, Mobile->Former, Former.

    The backbone's block begins with Mobile->Former. Here the cycle starts
    one half later, so that the last block's work on the pixels still reaches
    the queries (and every parameter gets a gradient). Parameters and MAdds
    are the same.

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
        # Values include positions: before the first Mobile->Former queries
        # have no content.
        tokens = query + query_pos
        pixels = pixels + self.former_to_mobile(pixels + scale.pos, tokens,
                                                tokens)
        query = self.query_update(query, query_pos, pixels, scale)
        return to_map(pixels, scale.hw), query
