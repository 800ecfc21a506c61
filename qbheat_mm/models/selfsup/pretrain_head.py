# Copyright (c) QB-Heat MM authors. All rights reserved.
"""QB-Heat's loss."""
import torch.nn.functional as F
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor

from ..layers.transformer import pick


@MODELS.register_module()
class QBHeatPretrainHead(BaseModule):
    """Compare masked patches with their prediction.

    Like mmpretrain's ``MAEPretrainHead``, but images need not be square.

    Args:
        loss (dict, optional): Config of the loss module; mmpretrain's
            ``PixelReconstructionLoss`` with the squared error if None.
        norm_pix (bool): Normalize each target patch by its own mean and
            standard deviation, as in MAE; the paper does not say. Defaults
            to True.
        patch_size (int): Side of a patch in pixels. Defaults to 16.
    """

    def __init__(self,
                 loss: dict | None = None,
                 norm_pix: bool = True,
                 patch_size: int = 16) -> None:
        super().__init__()
        self.loss_module = MMPRETRAIN_MODELS.build(
            loss or dict(type='PixelReconstructionLoss', criterion='L2'))
        self.norm_pix = norm_pix
        self.patch_size = patch_size

    def patchify(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) to (B, L, patch_size**2 * 3), in row-major order."""
        p = self.patch_size
        patches = images.unflatten(3, (-1, p)).unflatten(2, (-1, p))
        return patches.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)

    def unpatchify(self, patches: Tensor, height: int, width: int) -> Tensor:
        """Invert :meth:`patchify`, for images of height x width."""
        p = self.patch_size
        grid = patches.unflatten(2, (p, p, 3)).unflatten(
            1, (height // p, width // p))
        return grid.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)

    def target(self, images: Tensor,
               masked_ids: Tensor | None = None) -> Tensor:
        """Return the patches to predict.

        Args:
            images (Tensor): (B, 3, H, W).
            masked_ids (Tensor, optional): (B, M), int64: row-major patch
                ids. Defaults to all L.

        Returns:
            Tensor: (B, L or M, patch_size**2 * 3).
        """
        patches = self.patchify(images)
        if masked_ids is not None:
            patches = pick(patches, masked_ids)
        return self._normalize(patches) if self.norm_pix else patches

    @staticmethod
    def _normalize(patches: Tensor) -> Tensor:
        """Compute MAE's (x - mean) / sqrt(var + 1e-6) over the last axis.

        Layer norm does it in one pass, but its variance divides by n, MAE's
        by n - 1.
        """
        n = patches.shape[-1]
        unbiased = (n - 1) / n
        return F.layer_norm(
            patches, (n, ), eps=1e-6 * unbiased) * unbiased**0.5

    def loss(self,
             pred: Tensor,
             images: Tensor,
             mask: Tensor | None = None,
             masked_ids: Tensor | None = None) -> Tensor:
        """Average the error over masked patches.

        Args:
            pred (Tensor): All patches or those of ``masked_ids``,
                (B, L or M, patch_size**2 * 3).
            images (Tensor): (B, 3, H, W).
            mask (Tensor, optional): (B, L), 1 for masked, 0 for visible.
                Defaults to all predicted patches.
            masked_ids (Tensor, optional): (B, M), int64: row-major ids of
                the predicted patches. Defaults to all L.

        Returns:
            Tensor: A scalar.
        """
        target = self.target(images, masked_ids)
        if mask is None:  # without one, mmpretrain ignores `channel`
            mask = target.new_ones(target.shape[:2])
        return self.loss_module(pred, target, mask)
