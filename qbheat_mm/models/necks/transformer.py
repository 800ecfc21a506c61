"""Transformer blocks of mmpretrain, loaded when a model is built.

mmpretrain.models imports mmdet and mmcv's compiled ops where they are
installed; importing this package must not.
"""
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


def sincos_position_embedding(height: int, width: int,
                              embed_dims: int) -> Tensor:
    """Fixed 2-D sine-cosine embedding, (1, height * width, embed_dims)."""
    from mmpretrain.models.utils import build_2d_sincos_position_embedding

    # It lays the first of the two sizes along the inner axis.
    return build_2d_sincos_position_embedding((width, height), embed_dims)
