# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Control: random masking (MAE-style) instead of the heat equation."""
import torch
from mmengine.registry import MODELS
from torch import Tensor

from .masked_image_model import MaskedImageModel


@MODELS.register_module()
class RandomMasking(MaskedImageModel):
    """Mask random patches of the whole image, as in MAE and SimMIM.

    Like QB-Heat it masks three out of four patches. The convolutional
    encoder gets the whole image with masked patches set to the mean pixel,
    four times the cost of a quarter. Projection, decoder, target and loss
    are those of :class:`QBHeat`; nothing is extrapolated.

    Args:
        predictor (dict): Config of :class:`QBHeatPredictor`; its linear
            models are not built.
        position, num_models: Of :class:`QBHeat`, whose configs need another
            ``model.type`` only; unused.
        **kwargs: See :class:`MaskedImageModel`.
    """

    def __init__(self, *, predictor: dict, position: str = 'mixed',
                 num_models: int = 8, **kwargs) -> None:
        super().__init__(
            predictor=dict(predictor, prediction='copy'), **kwargs)

    def predict_masked(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`MaskedImageModel`."""
        masked_ids = self.sample_masked_ids(images)
        feats = self.encode(self.mask_images(images, masked_ids))
        z = self.predictor.proj(feats.permute(0, 2, 3, 1))
        return self.decode(z, masked_ids), masked_ids

    def sample_masked_ids(self, images: Tensor) -> Tensor:
        """Draw three out of four patches per image, (B, M), int64."""
        height, width = self._grid(images)
        order = torch.rand(len(images), height * width).argsort(dim=1)
        return order[:, :3 * height * width // 4].to(images.device)

    def mask_images(self, images: Tensor, masked_ids: Tensor) -> Tensor:
        """Set masked patches of images (B, 3, H, W) to 0, the mean pixel."""
        self._check_size(*images.shape[2:])
        height, width = self._grid(images)
        visible = images.new_ones(len(images), height * width)
        visible = visible.scatter(1, masked_ids, 0.).view(-1, 1, height, width)
        for axis in (2, 3):
            visible = visible.repeat_interleave(self.head.patch_size, dim=axis)
        return images * visible
