# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pre-norm transformer blocks, as in ViT and MAE."""
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SelfAttention(nn.Module):
    """Multi-head self-attention of all positions, for all or some of them.

    Args:
        embed_dims (int): Width D.
        num_heads (int): Attention heads.
    """

    def __init__(self, embed_dims: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dims, 3 * embed_dims)
        self.proj = nn.Linear(embed_dims, embed_dims)

    def forward(self, x: Tensor, ids: Tensor | None = None) -> Tensor:
        """Attend, see :class:`Block`."""
        if ids is None:
            parts = self.qkv(x).chunk(3, dim=2)
        else:
            widths = [x.shape[2], 2 * x.shape[2]]
            weights = self.qkv.weight.split(widths)
            biases = self.qkv.bias.split(widths)
            query = F.linear(pick(x, ids), weights[0], biases[0])
            both = F.linear(x, weights[1], biases[1])
            parts = (query, *both.chunk(2, dim=2))
        # Splitting here saves several copies in the backward pass.
        query, key, value = (
            part.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Self-attention and an MLP, each after a layer norm.

    Tensors have the names of mmpretrain's ``TransformerEncoderLayer``.

    Args:
        embed_dims (int): Width D.
        num_heads (int): Attention heads.
        mlp_ratio (int): Hidden width of the MLP over D.
    """

    def __init__(self, embed_dims: int, num_heads: int,
                 mlp_ratio: int) -> None:
        super().__init__()
        self.embed_dims = embed_dims
        hidden = mlp_ratio * embed_dims
        self.ln1 = nn.LayerNorm(embed_dims, eps=1e-6)
        self.attn = SelfAttention(embed_dims, num_heads)
        self.ln2 = nn.LayerNorm(embed_dims, eps=1e-6)
        self.ffn = nn.Sequential(OrderedDict(layers=nn.Sequential(
            nn.Sequential(nn.Linear(embed_dims, hidden), nn.GELU()),
            nn.Linear(hidden, embed_dims))))

    def forward(self, x: Tensor, ids: Tensor | None = None) -> Tensor:
        """Compute all or some outputs.

        Args:
            x (Tensor): (B, L, D). All positions are keys and values.
            ids (Tensor, optional): Positions to compute, (B, M), int64.

        Returns:
            Tensor: (B, L or M, D).
        """
        attended = self.attn(self.ln1(x), ids)
        if ids is not None:
            x = pick(x, ids)
        x = x + attended
        return x + self.ffn(self.ln2(x))


def transformer_blocks(embed_dims: int, depth: int, num_heads: int,
                       mlp_ratio: int) -> nn.Sequential:
    """Return ``depth`` blocks on (B, L, embed_dims)."""
    blocks = nn.Sequential()
    for _ in range(depth):
        blocks.append(Block(embed_dims, num_heads, mlp_ratio))
    return blocks


def pick(x: Tensor, ids: Tensor) -> Tensor:
    """Select positions ids (B, M) of x (B, L, D): (B, M, D)."""
    batch, length = x.shape[:2]
    start = torch.arange(0, batch * length, length, device=x.device)
    index = (ids + start[:, None]).flatten()
    return x.flatten(0, 1).index_select(0, index).unflatten(0, (batch, -1))
