"""mmpretrain's transformer blocks, imported when a model is built.

Importing mmpretrain.models imports mmdet and mmcv's compiled ops.
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
    """Run a pre-norm block for the outputs at some positions only.

    The other positions serve as keys and values. Equal to the whole block up
    to rounding.

    Args:
        block (nn.Module): Pre-norm transformer block.
        x (Tensor): All positions, (B, L, D).
        positions (Tensor): Of the outputs, (B, M), int64.

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
    """Select positions (B, M) of (B, L, D): (B, M, D)."""
    batch, length = x.shape[:2]
    start = torch.arange(0, batch * length, length, device=x.device)
    index = (positions + start[:, None]).flatten()
    return x.flatten(0, 1).index_select(0, index).unflatten(0, (batch, -1))


def sincos_position_embedding(height: int, width: int,
                              embed_dims: int) -> Tensor:
    """Fixed 2-D sine-cosine embedding, (1, height * width, embed_dims)."""
    from mmpretrain.models.utils import build_2d_sincos_position_embedding

    # mmpretrain lays the first of the two sizes along the inner axis.
    return build_2d_sincos_position_embedding((width, height), embed_dims)
