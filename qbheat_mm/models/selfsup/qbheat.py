# Copyright (c) QB-Heat MM authors. All rights reserved.
"""QB-Heat pre-training: crop, encode, predict, decode, compare."""
import torch
from mmengine.model import BaseModel
from mmengine.registry import MODELS
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from ...errors import UserError
from ...utils.modules import cast_at_once
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
class QBHeat(BaseModel):
    """Quarter-block prediction guided by the heat equation.

    The encoder sees one quarter of the image, linear models extrapolate its
    features to the other three, and a small decoder predicts the pixels.
    Only the encoder, ``backbone``, is kept after pre-training.

    The interface is that of mmpretrain's ``BaseSelfSupervisor``, which is
    not inherited: importing it imports mmdet and mmcv's compiled ops.

    Args:
        backbone (dict): Any convolutional backbone whose last output has
            stride ``head.patch_size``.
        predictor (dict): Config of :class:`QBHeatPredictor`.
        neck (dict): Config of the decoder, :class:`QBHeatDecoder`.
        head (dict): Config of :class:`QBHeatPretrainHead`.
        position (str): Position of the visible quarter: ``'corner'``,
            ``'center'`` or ``'mixed'``. Defaults to 'mixed'.
        num_models (int): Explicit linear models per scale: 2, 4 or 8.
            Defaults to 8.
        allow_pixel_attention (bool): Accept a backbone with spatial
            self-attention. Defaults to False.
        data_preprocessor (dict, optional): Defaults to mmpretrain's
            ``SelfSupDataPreprocessor``.
        init_cfg (dict, optional): Initialization of the whole model.

    Raises:
        UserError: If the backbone uses spatial self-attention, the position
            or the number of models is unknown, or widths or patch sizes of
            the parts differ.
    """

    def __init__(self,
                 backbone: dict,
                 predictor: dict,
                 neck: dict,
                 head: dict,
                 position: str = 'mixed',
                 num_models: int = 8,
                 allow_pixel_attention: bool = False,
                 data_preprocessor: dict | nn.Module | None = None,
                 init_cfg: dict | None = None) -> None:
        if not isinstance(data_preprocessor, nn.Module):
            data_preprocessor = MMPRETRAIN_MODELS.build(
                dict(
                    dict(type='SelfSupDataPreprocessor'),
                    **(data_preprocessor or {})))
        super().__init__(data_preprocessor, init_cfg)
        self.position = position
        self.backbone = MMPRETRAIN_MODELS.build(backbone)
        self.predictor = MMPRETRAIN_MODELS.build(
            dict(predictor, position=position, num_models=num_models))
        self.neck = MMPRETRAIN_MODELS.build(neck)
        self.head = MMPRETRAIN_MODELS.build(head)
        self._check_parts()
        self._compiled = False
        if not allow_pixel_attention:
            reject_pixel_attention(self.backbone)

    def _check_parts(self) -> None:
        """Raise unless predictor, neck and head agree."""
        for first, second, name in (('predictor', 'neck', 'embed_dims'),
                                    ('neck', 'head', 'patch_size')):
            sizes = [getattr(getattr(self, part), name, None)
                     for part in (first, second)]
            if None not in sizes and sizes[0] != sizes[1]:
                raise UserError(
                    f'model.{first}.{name}={sizes[0]} and '
                    f'model.{second}.{name}={sizes[1]} must be equal')

    def compile(self, *args, **kwargs) -> None:
        """Compile the decoder and, on a GPU, the encoder.

        On a CPU generating code for the encoder's many shapes takes longer
        than it saves. Arguments are those of ``torch.compile``.
        """
        if next(self.parameters()).is_cuda:
            self.backbone.compile(*args, **kwargs)
        self.neck.compile(*args, **kwargs)
        self._compiled = True

    def forward(self,
                inputs: Tensor,
                data_samples: list | None = None,
                mode: str = 'tensor'
                ) -> dict[str, Tensor] | tuple[Tensor, ...]:
        """Compute losses or features, as mmengine's runner expects.

        Args:
            inputs (Tensor): Images, (B, 3, H, W).
            data_samples (list, optional): Unused.
            mode (str): ``'loss'``, or ``'tensor'`` for the encoder's
                features of the whole images.

        Returns:
            dict[str, Tensor] | tuple[Tensor]: Losses or features.
        """
        if mode == 'loss':
            return self.loss(inputs, data_samples)
        if mode == 'tensor':
            return self.extract_feat(inputs)
        raise RuntimeError(f"mode={mode!r} is neither 'loss' nor 'tensor'")

    def extract_feat(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the backbone's features of whole images (B, 3, H, W)."""
        return self.backbone(inputs)

    def loss(self,
             inputs: Tensor,
             data_samples: list | None = None) -> dict[str, Tensor]:
        """Compute the pre-training loss of images (B, 3, H, W)."""
        positions = sample_positions(len(inputs), self.position)
        masked_ids = masked_patch_ids(positions, *self._grid(inputs)).to(
            inputs.device, non_blocking=True)
        pred = self.predict_pixels(inputs, positions, masked_ids)
        return dict(loss=self.head.loss(pred, inputs, masked_ids=masked_ids))

    def predict_pixels(self,
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
            Tensor: (B, L or M, patch_size**2 * 3), with zero mean and unit
            variance per patch if ``head.norm_pix``.
        """
        quarters = self.crop(images, positions)
        feats = self.encode(quarters)
        z = self.predictor(feats, positions)
        return self._run(self.neck, nn.Linear, z, masked_ids)

    def _run(self, part: nn.Module, kind: type[nn.Module], *inputs):
        """Run a part; compiled ones cast their weights themselves."""
        if self._compiled or torch.compiler.is_compiling():
            return part(*inputs)
        return cast_at_once(part, kind, *inputs)

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

    def encode(self, quarters: Tensor) -> Tensor:
        """Encode the quarters to the last features, (B, C, h, w)."""
        feats = self._run(self.backbone, nn.Conv2d, quarters)[-1]
        stride = self.head.patch_size
        expected = (self.predictor.in_channels, quarters.shape[2] // stride,
                    quarters.shape[3] // stride)
        if tuple(feats.shape[1:]) != expected:
            raise UserError(
                f'{type(self.backbone).__name__} returns features of shape '
                f'{tuple(feats.shape[1:])} (C, h, w), not {expected}: set '
                f'model.predictor.in_channels (now {expected[0]}) to its '
                f'channels, and head.patch_size (now {stride}) and '
                'neck.patch_size to its stride')
        return feats

    def mask(self, images: Tensor, positions: Positions) -> Tensor:
        """Return 1 for masked and 0 for visible patches, (B, L)."""
        height, width = self._grid(images)
        masked_ids = masked_patch_ids(positions, height, width)
        mask = torch.zeros(len(images), height * width)
        return mask.scatter_(1, masked_ids, 1).to(images)

    def _grid(self, images: Tensor) -> list[int]:
        """Rows and columns of patches."""
        return [n // self.head.patch_size for n in images.shape[2:]]

    @property
    def size_unit(self) -> int:
        """The divisor of valid image heights and widths.

        A central quarter consists of four sub-blocks of whole patches.
        """
        parts = 2 if self.position == 'corner' else 4
        return parts * self.head.patch_size

    def _check_size(self, height: int, width: int) -> None:
        unit = self.size_unit
        if height % unit or width % unit:
            fit = [max(round(n / unit), 1) * unit for n in (height, width)]
            raise UserError(
                f'images of {height}x{width} pixels do not split into '
                f'quarters of whole patches: with position={self.position!r} '
                f'and patch_size={self.head.patch_size}, height and width '
                f'must be multiples of {unit}. Set the scale of '
                f'RandomResizedCrop to {fit[0]}x{fit[1]}')


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
