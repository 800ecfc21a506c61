# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The decoder of QB-Heat: from features of all positions to pixels."""
import torch
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..layers.transformer import Block, transformer_blocks


def sincos_position_embedding(height: int, width: int,
                              embed_dims: int) -> Tensor:
    """Fixed 2-D sine-cosine embedding, (1, height * width, embed_dims)."""
    # Imports mmdet and mmcv's compiled ops.
    from mmpretrain.models.utils import build_2d_sincos_position_embedding

    # mmpretrain takes the size of the inner axis first.
    return build_2d_sincos_position_embedding((width, height), embed_dims)


@MODELS.register_module()
class QBHeatDecoder(BaseModule):
    """Transformer blocks on all quarters, visible and masked, as in MAE.

    The paper uses 6 blocks of dimension 512 (Section 4.2).

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
        self._run_block = Block.forward

    def compile(self, *args, **kwargs) -> None:
        """Compile one block for all; arguments are torch.compile's."""
        self._run_block = torch.compile(Block.forward, *args, **kwargs)

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
