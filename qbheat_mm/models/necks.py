# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Probes of features, and Mobile-Former V1's neck."""
from collections.abc import Collection

import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import UserError
from .layers.transformer import transformer_blocks

__all__ = ['MobileFormerV1Neck', 'PoolWithToken', 'TransformerProbe']


@MODELS.register_module()
class PoolWithToken(BaseModule):
    """Average the pixels and append the first token, if there are any.

    Gives 912, 1696 and 3136 channels for the paper's encoders.
    """

    def forward(self, feats: tuple[Tensor, ...]) -> tuple[Tensor]:
        """Features and tokens to ((B, C + d),)."""
        pixels, *tokens = _pixels_and_tokens(feats, (1, 2))
        return (torch.cat([pixels.mean(dim=(2, 3)),
                           *(token[:, 0] for token in tokens)], dim=1), )


@MODELS.register_module()
class TransformerProbe(BaseModule):
    """The ``tran-k`` decoder: k transformer blocks, then average pooling.

    Pixels and tokens are projected to the same width, attend to each other
    and are averaged together.

    Args:
        in_channels (int): Channels C of the features.
        token_dims (int, optional): Width d of the tokens; None for encoders
            without.
        embed_dims (int): Width of the blocks: 192, 384 and 768 in the
            paper.
        depth (int): Number k of blocks: 1 for probing, 1 or 4 for
            fine-tuning. Defaults to 1.
        num_heads (int, optional): Attention heads. Defaults to None, one per
            64 channels.
        mlp_ratio (int): Hidden width of the MLP over embed_dims. Defaults
            to 4.
        drop_rate (float): Dropout before the classifier. Defaults to 0.
        init_cfg (dict, optional): Initialization; a truncated normal if None.
    """

    def __init__(self,
                 in_channels: int,
                 token_dims: int | None,
                 embed_dims: int,
                 depth: int = 1,
                 num_heads: int | None = None,
                 mlp_ratio: int = 4,
                 drop_rate: float = 0.,
                 init_cfg: dict | None = None) -> None:
        super().__init__(
            init_cfg or dict(type='TruncNormal', layer='Linear', std=.02))
        num_heads = num_heads or max(embed_dims // 64, 1)
        self.pixel_proj = nn.Linear(in_channels, embed_dims)
        self.token_proj = (
            nn.Linear(token_dims, embed_dims) if token_dims else None)
        self.blocks = transformer_blocks(
            embed_dims, depth, num_heads, mlp_ratio)
        self.norm = nn.LayerNorm(embed_dims, eps=1e-6)
        self.drop = nn.Dropout(drop_rate)

    def forward(self, feats: tuple[Tensor, ...]) -> tuple[Tensor]:
        """Features and tokens to ((B, embed_dims),)."""
        pixels, *tokens = _pixels_and_tokens(
            feats, (1, ) if self.token_proj is None else (2, ))
        x = self.pixel_proj(pixels.permute(0, 2, 3, 1).flatten(1, 2))
        if self.token_proj is not None:
            x = torch.cat([x, self.token_proj(*tokens)], dim=1)
        x = self.norm(self.blocks(x)).mean(dim=1)
        return (self.drop(x), )


@MODELS.register_module()
class MobileFormerV1Neck(BaseModule):
    """Pool, append the first token, and apply one hidden layer (V1).

    h-swish follows the pooling and the hidden layer; dropout comes last.

    Args:
        in_channels (int): Channels C of the features.
        token_dims (int): Width d of the tokens.
        mid_channels (int): Width of the hidden layer.
        drop_rate (float): Dropout before the classifier. Defaults to 0.
        init_cfg (dict, optional): Initialization; the authors' if None.
    """

    def __init__(self,
                 in_channels: int,
                 token_dims: int,
                 mid_channels: int,
                 drop_rate: float = 0.,
                 init_cfg: dict | None = None) -> None:
        super().__init__(
            init_cfg or dict(type='Normal', layer='Linear', std=.01))
        self.fc = nn.Linear(in_channels + token_dims, mid_channels)
        self.norm = nn.BatchNorm1d(mid_channels)
        self.drop = nn.Dropout(drop_rate)

    def forward(self, feats: tuple[Tensor, Tensor]) -> tuple[Tensor]:
        """Features (B, C, H, W) and tokens (B, T, d) to ((B, mid), )."""
        pixels, tokens = feats
        pooled = F.hardswish(pixels.mean(dim=(2, 3)))
        x = self.fc(torch.cat([pooled, tokens[:, 0]], dim=1))
        return (self.drop(F.hardswish(self.norm(x))), )


def _pixels_and_tokens(feats: tuple[Tensor, ...],
                       numbers: Collection[int]) -> tuple[Tensor, ...]:
    """Return features and perhaps tokens; UserError for other outputs."""
    if len(feats) not in numbers or [
            feat.ndim for feat in feats] != [4, 3][:len(feats)]:
        given = ', '.join(str(tuple(feat.shape)) for feat in feats)
        raise UserError(
            'this decoder needs features (B, C, H, W) and tokens (B, T, d), '
            f'but model.backbone returns {given}. Set '
            'model.backbone.out_indices=(-2, -1) for MobileFormer; '
            'encoder=FILE adapts the decoder to an encoder without tokens')
    return feats
