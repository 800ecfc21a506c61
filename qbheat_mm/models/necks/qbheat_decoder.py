"""The decoder of QB-Heat: from predicted features to pixels."""

from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from ...arguments import POSITIVE_INT, checked, multiple
from ...errors import UserError
from .transformer import (
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
        patch_size (int): Side, in pixels, of the patch that a position
            stands for: the stride of the encoder. Defaults to 16.
        init_cfg (dict | list[dict], optional): Initialization; as in MAE
            if None.
    """

    @checked(
        embed_dims=POSITIVE_INT,
        depth=POSITIVE_INT,
        num_heads=POSITIVE_INT,
        mlp_ratio=POSITIVE_INT,
        patch_size=POSITIVE_INT)
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
        multiple('QBHeatDecoder: embed_dims', embed_dims, 'num_heads',
                 num_heads)
        if embed_dims % 4:
            raise UserError(
                f'QBHeatDecoder: embed_dims={embed_dims} must be a multiple '
                'of 4: sine and cosine along two axes mark the positions')
        self.embed_dims = embed_dims
        self.patch_size = patch_size
        self.blocks = transformer_blocks(embed_dims, depth, num_heads,
                                         mlp_ratio)
        self.norm = nn.LayerNorm(embed_dims, eps=1e-6)
        self.pixels = nn.Linear(embed_dims, patch_size**2 * 3)
        self._position_embeddings = {}

    def forward(self, z: Tensor, masked_ids: Tensor | None = None) -> Tensor:
        """Paint the pixels of every patch, or of some.

        Args:
            z (Tensor): Features of all positions, (B, H, W, embed_dims).
            masked_ids (Tensor, optional): (B, M), int64: the patches to
                paint, counted in rows. What the others alone need is not
                computed; the painted ones are the same up to rounding.

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
        """The embedding of one size, (1, H * W, D), with the weights' dtype.

        Not with the features', which are of half precision under AMP: as in
        MAE, what is added to the residual stream is not. Computed once, and
        again where the weights were moved.
        """
        size, weights = (height, width), self.pixels.weight
        known = self._position_embeddings.get(size)
        if (known is None or known.dtype != weights.dtype
                or known.device != weights.device):
            known = sincos_position_embedding(
                height, width, self.embed_dims).to(weights)
            self._position_embeddings[size] = known
        return known
