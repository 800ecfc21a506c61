"""Transformer blocks of mmpretrain, loaded when a model is built.

mmpretrain.models imports mmdet and mmcv's compiled ops where they are
installed; importing this package must not.
"""
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def transformer_blocks(embed_dims: int, depth: int, num_heads: int,
                       mlp_ratio: int) -> nn.Sequential:
    """Pre-norm blocks on (B, L, embed_dims), as in ViT and MAE."""
    from mmpretrain.models.backbones.vision_transformer import (
        TransformerEncoderLayer,
    )
    return nn.Sequential(*[
        TransformerEncoderLayer(
            embed_dims,
            num_heads,
            mlp_ratio * embed_dims,
            norm_cfg=dict(type='LN', eps=1e-6)) for _ in range(depth)
    ])


def block_at(block: nn.Module, x: Tensor, positions: Tensor) -> Tensor:
    """What a block of :func:`transformer_blocks` gives at some positions.

    Only those ask, pass the MLP and cost anything but their key and value;
    the result is that of the whole block, up to rounding.

    Args:
        block (nn.Module): Pre-norm transformer block.
        x (Tensor): All positions, (B, L, D).
        positions (Tensor): (B, M), int64, of each image's L.

    Returns:
        Tensor: (B, M, D).
    """
    attn, seen = block.attn, block.ln1(x)
    dims, heads = attn.embed_dims, attn.num_heads
    weight, bias = attn.qkv.weight, attn.qkv.bias
    query = F.linear(pick(seen, positions), weight[:dims], bias[:dims])
    both = F.linear(seen, weight[dims:], bias[dims:])
    query, key, value = (part.unflatten(2, (heads, -1)).transpose(1, 2)
                         for part in (query, *both.chunk(2, dim=2)))
    mixed = F.scaled_dot_product_attention(query, key, value)
    x = pick(x, positions) + attn.proj(mixed.transpose(1, 2).flatten(2))
    return block.ffn(block.ln2(x), identity=x)


def pick(x: Tensor, positions: Tensor) -> Tensor:
    """Take the positions (B, M) of each image's (B, L, D): (B, M, D)."""
    batch, length = x.shape[:2]
    start = torch.arange(0, batch * length, length, device=x.device)
    index = (positions + start[:, None]).flatten()
    return x.flatten(0, 1).index_select(0, index).unflatten(0, (batch, -1))


def sincos_position_embedding(height: int, width: int,
                              embed_dims: int) -> Tensor:
    """Fixed 2-D sine-cosine embedding, (1, height * width, embed_dims)."""
    from mmpretrain.models.utils import build_2d_sincos_position_embedding

    # It lays the first of the two sizes along the inner axis.
    return build_2d_sincos_position_embedding((width, height), embed_dims)
