# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Decoders of QB-Heat, for probing, and of Mobile-Former V1.

mmpretrain's transformer is imported when a model is built: importing
mmpretrain.models imports mmdet and mmcv's compiled ops.
"""
from collections.abc import Collection

import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import UserError

__all__ = [
    'MobileFormerV1Neck', 'PoolWithToken', 'QBHeatDecoder', 'TransformerProbe'
]


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


def run_block(block: nn.Module, x: Tensor,
              ids: Tensor | None = None) -> Tensor:
    """Run a pre-norm block of mmpretrain, computing all or some outputs.

    All L positions serve as keys and values. Equals the block up to
    rounding; splitting queries, keys and values here saves several copies in
    the backward pass.

    Args:
        block (nn.Module): Pre-norm transformer block.
        x (Tensor): (B, L, D).
        ids (Tensor, optional): Positions to compute, (B, M), int64.

    Returns:
        Tensor: (B, L or M, D).
    """
    attn, seen = block.attn, block.ln1(x)
    if ids is None:
        parts = attn.qkv(seen).chunk(3, dim=2)
    else:
        dims, weight, bias = attn.embed_dims, attn.qkv.weight, attn.qkv.bias
        query = F.linear(pick(seen, ids), weight[:dims], bias[:dims])
        both = F.linear(seen, weight[dims:], bias[dims:])
        parts = (query, *both.chunk(2, dim=2))
        x = pick(x, ids)
    query, key, value = (
        part.unflatten(2, (attn.num_heads, -1)).transpose(1, 2)
        for part in parts)
    mixed = F.scaled_dot_product_attention(query, key, value)
    x = x + attn.proj(mixed.transpose(1, 2).flatten(2))
    return block.ffn(block.ln2(x), identity=x)


def pick(x: Tensor, ids: Tensor) -> Tensor:
    """Select positions ids (B, M) of x (B, L, D): (B, M, D)."""
    batch, length = x.shape[:2]
    start = torch.arange(0, batch * length, length, device=x.device)
    index = (ids + start[:, None]).flatten()
    return x.flatten(0, 1).index_select(0, index).unflatten(0, (batch, -1))


def sincos_position_embedding(height: int, width: int,
                              embed_dims: int) -> Tensor:
    """Fixed 2-D sine-cosine embedding, (1, height * width, embed_dims)."""
    from mmpretrain.models.utils import build_2d_sincos_position_embedding

    # mmpretrain takes the size of the inner axis first.
    return build_2d_sincos_position_embedding((width, height), embed_dims)


@MODELS.register_module()
class QBHeatDecoder(BaseModule):
    """Transformer blocks on all quarters, visible and masked, as in MAE.

    The paper uses 6 blocks of dimension 512 (Section "Architecture and
    Implementation").

    Args:
        embed_dims (int): Width of the features and of the blocks. Defaults
            to 512.
        depth (int): Number of blocks. Defaults to 6.
        num_heads (int): Attention heads, 16 as in MAE. Defaults to 16.
        mlp_ratio (int): Hidden width of the MLPs over embed_dims. Defaults
            to 4.
        patch_size (int): Side of a patch in pixels, the encoder's stride.
            Defaults to 16.
        out_channels (int, optional): Width of the prediction. Defaults to
            the pixels of a patch, patch_size**2 * 3.
        init_cfg (dict | list[dict], optional): Initialization; MAE's if
            None.
    """

    def __init__(
        self,
        embed_dims: int = 512,
        depth: int = 6,
        num_heads: int = 16,
        mlp_ratio: int = 4,
        patch_size: int = 16,
        out_channels: int | None = None,
        init_cfg: list[dict] | dict | None = None,
    ) -> None:
        super().__init__(init_cfg or dict(
            type='Xavier', layer='Linear', distribution='uniform'))
        self.embed_dims = embed_dims
        self.patch_size = patch_size
        self.blocks = transformer_blocks(embed_dims, depth, num_heads,
                                         mlp_ratio)
        self.norm = nn.LayerNorm(embed_dims, eps=1e-6)
        # Pixels or other targets; checkpoints have this name.
        self.pixels = nn.Linear(embed_dims, out_channels or patch_size**2 * 3)
        self._position_embeddings = {}
        self._run_block = run_block

    def compile(self, *args, **kwargs) -> None:
        """Compile one block for all; arguments are torch.compile's."""
        self._run_block = torch.compile(run_block, *args, **kwargs)

    def forward(self, z: Tensor, masked_ids: Tensor | None = None) -> Tensor:
        """Predict all or some patches.

        Args:
            z (Tensor): Features of all positions, (B, H, W, embed_dims).
            masked_ids (Tensor, optional): (B, M), int64: the patches to
                predict, in row-major order. The last block skips all others;
                results are equal up to rounding.

        Returns:
            Tensor: (B, H * W, out_channels) in row-major order, or
            (B, M, out_channels).
        """
        height, width = z.shape[1:3]
        x = z.flatten(1, 2) + self.position_embedding(height, width)
        for block in self.blocks[:-1]:
            x = self._run_block(block, x)
        x = self._run_block(self.blocks[-1], x, masked_ids)
        return self.pixels(self.norm(x))

    def position_embedding(self, height: int, width: int) -> Tensor:
        """Position embedding, (1, H * W, D), cached per size.

        It has the dtype of layer norms: under AMP features are float16, but
        the residual stream is float32, as in MAE.
        """
        size, weights = (height, width), self.norm.weight
        known = self._position_embeddings.get(size)
        if (known is None or known.dtype != weights.dtype
                or known.device != weights.device):
            known = sincos_position_embedding(
                height, width, self.embed_dims).to(weights)
            self._position_embeddings[size] = known
        return known


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
