# Copyright (c) QB-Heat MM authors. All rights reserved.
"""QB-Heat pre-training: crop, encode, predict, decode, compare."""
import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ...errors import UserError
from .masked_image_model import MaskedImageModel
from .quarters import (
    Positions,
    masked_patch_ids,
    quarter_offset,
    sample_positions,
)

#: Spatial self-attention in mmpretrain, mmcv, timm and torch.
_ATTENTION = {
    'Attention', 'AttentionWithBias', 'AttentionWithRoPE', 'BEiTAttention',
    'DaViTWindowMSA', 'LeAttention', 'LocallyGroupedSelfAttention',
    'MultiheadAttention', 'MultiScaleAttention', 'ShiftWindowMSA',
    'WindowAttention', 'WindowMSA', 'WindowMSAV2', 'XCA'
}
_PACKAGES = {'mmpretrain', 'mmcv', 'timm', 'torch'}


@MODELS.register_module()
class QBHeat(MaskedImageModel):
    """Quarter-block prediction guided by the heat equation.

    The encoder sees one quarter of the image, linear models extrapolate its
    features to the other three, and a small decoder predicts the pixels, or
    the features of ``target_generator``.

    Args:
        predictor (dict): Config of :class:`QBHeatPredictor`.
        position (str): Position of the visible quarter: ``'corner'``,
            ``'center'`` or ``'mixed'``. Defaults to 'mixed'.
        num_models (int): Explicit linear models per scale: 2, 4 or 8.
            Defaults to 8.
        allow_pixel_attention (bool): Accept a backbone with spatial
            self-attention. Defaults to False.
        **kwargs: See :class:`MaskedImageModel`.

    Raises:
        UserError: If the backbone uses spatial self-attention, the position
            or the number of models is unknown, or widths or patch sizes of
            the parts differ.
    """

    def __init__(self,
                 *,
                 predictor: dict,
                 position: str = 'mixed',
                 num_models: int = 8,
                 allow_pixel_attention: bool = False,
                 **kwargs) -> None:
        super().__init__(
            predictor=dict(predictor, position=position,
                           num_models=num_models), **kwargs)
        self.position = position
        if not allow_pixel_attention:
            reject_pixel_attention(self.backbone)

    def predict_masked(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`MaskedImageModel`; three quarters are masked."""
        positions = sample_positions(len(images), self.position)
        masked_ids = masked_patch_ids(positions, *self._grid(images)).to(
            images.device, non_blocking=True)
        return self.predict(images, positions, masked_ids), masked_ids

    def predict(self,
                images: Tensor,
                positions: Positions,
                masked_ids: Tensor | None = None) -> Tensor:
        """Predict patches from one quarter of each image.

        Args:
            images (Tensor): (B, 3, H, W).
            positions (Sequence[tuple[str, int]]): See
                :func:`sample_positions`.
            masked_ids (Tensor, optional): (B, M), int64: the patches to
                predict, in row-major order. Defaults to all L.

        Returns:
            Tensor: (B, L or M, D).
        """
        quarters = self.crop(images, positions)
        feats = self.encode(quarters)
        z = self.predictor(feats, positions)
        return self.decode(z, masked_ids)

    def predict_pixels(self,
                       images: Tensor,
                       positions: Positions,
                       masked_ids: Tensor | None = None) -> Tensor:
        """Predict pixels from one quarter of each image, see :meth:`predict`.

        Returns:
            Tensor: (B, L or M, patch_size**2 * 3), with zero mean and unit
            variance per patch if ``head.norm_pix``.

        Raises:
            UserError: If the model predicts features only.
        """
        if not self.with_pixels:
            raise UserError('this QBHeat predicts the features of '
                            'model.target_generator, and no pixels')
        pred = self.predict(images, positions, masked_ids)
        return pred[..., -self._pixel_channels():]

    def crop(self, images: Tensor, positions: Positions) -> Tensor:
        """Crop the visible quarters, (B, 3, H / 2, W / 2)."""
        height, width = images.shape[2:]
        self._check_size(height, width)
        quarters = []
        for part, (position, _) in zip(
                images.split([n for _, n in positions]), positions):
            top, left = quarter_offset(position, height, width)
            quarters.append(part[..., top:top + height // 2,
                                 left:left + width // 2])
        return torch.cat(quarters)

    def mask(self, images: Tensor, positions: Positions) -> Tensor:
        """Return 1 for masked and 0 for visible patches, (B, L)."""
        height, width = self._grid(images)
        masked_ids = masked_patch_ids(positions, height, width)
        mask = torch.zeros(len(images), height * width)
        return mask.scatter_(1, masked_ids, 1).to(images)

    @property
    def size_unit(self) -> int:
        """The divisor of valid image heights and widths.

        A central quarter consists of four sub-blocks of whole patches.
        """
        parts = 2 if self.position == 'corner' else 4
        return parts * self.head.patch_size


def reject_pixel_attention(backbone: nn.Module) -> None:
    """Reject backbones with spatial self-attention.

    They would attend to one quarter in pre-training and to the whole image
    afterwards (a limitation stated in the paper). Only layers of mmpretrain,
    mmcv, timm and torch are recognized.

    Raises:
        UserError: If the backbone has such a layer.
    """
    for module in backbone.modules():
        for cls in type(module).__mro__:
            package = cls.__module__.split('.')[0]
            if cls.__name__ in _ATTENTION and package in _PACKAGES:
                raise UserError(
                    f'{type(backbone).__name__} cannot be the encoder of '
                    f'QB-Heat: its {type(module).__name__} uses spatial '
                    'self-attention, which QB-Heat does not support. Use a '
                    'convolutional backbone such as MobileFormer, ResNet or '
                    'ConvNeXt, or set model.allow_pixel_attention=True')
