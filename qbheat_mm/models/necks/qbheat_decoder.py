"""The decoder of QB-Heat: from predicted features to pixels."""
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..layers.transformer import (
    block_at,
    sincos_position_embedding,
    transformer_blocks,
)


@MODELS.register_module()
class QBHeatDecoder(BaseModule):
    """Transformer blocks over all positions, as in MAE's decoder.

    Section "Architecture and Implementation": 6 blocks of dimension 512 on
    both the unmasked and the masked quarters.

    Args:
        embed_dims (int): Width of the features and of the blocks. Defaults
            to 512.
        depth (int): Number of blocks. Defaults to 6.
        num_heads (int): Attention heads, 16 as in MAE. Defaults to 16.
        mlp_ratio (int): Hidden width of the MLPs over embed_dims. Defaults
            to 4.
        patch_size (int): Side of a patch in pixels, the encoder's stride.
            Defaults to 16.
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
        init_cfg: list[dict] | dict | None = None,
    ) -> None:
        super().__init__(init_cfg or dict(
            type='Xavier', layer='Linear', distribution='uniform'))
        self.embed_dims = embed_dims
        self.patch_size = patch_size
        self.blocks = transformer_blocks(embed_dims, depth, num_heads,
                                         mlp_ratio)
        self.norm = nn.LayerNorm(embed_dims, eps=1e-6)
        self.pixels = nn.Linear(embed_dims, patch_size**2 * 3)
        self._position_embeddings = {}

    def forward(self, z: Tensor, masked_ids: Tensor | None = None) -> Tensor:
        """Predict the pixels of all patches, or of some.

        Args:
            z (Tensor): Features of all positions, (B, H, W, embed_dims).
            masked_ids (Tensor, optional): (B, M), int64: the patches to
                predict, numbered row by row. The last block then skips the
                others; results are the same up to rounding.

        Returns:
            Tensor: (B, H * W, patch_size**2 * 3), patches in rows, or
            (B, M, patch_size**2 * 3).
        """
        height, width = z.shape[1:3]
        x = z.flatten(1, 2) + self.position_embedding(height, width)
        if masked_ids is None:
            return self.pixels(self.norm(self.blocks(x)))
        x = self.blocks[:-1](x)
        return self.pixels(self.norm(block_at(self.blocks[-1], x, masked_ids)))

    def position_embedding(self, height: int, width: int) -> Tensor:
        """Position embedding, (1, H * W, D), in the dtype of the weights.

        Under AMP the features are float16, but the residual stream is not,
        as in MAE. Cached per size, device and dtype.
        """
        size, weights = (height, width), self.pixels.weight
        known = self._position_embeddings.get(size)
        if (known is None or known.dtype != weights.dtype
                or known.device != weights.device):
            known = sincos_position_embedding(
                height, width, self.embed_dims).to(weights)
            self._position_embeddings[size] = known
        return known
