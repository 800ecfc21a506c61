"""QB-Heat pre-training: crop, encode, predict, decode, compare."""

import torch
from mmengine.model import BaseModel
from mmengine.registry import MODELS
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from ...arguments import BOOL, checked
from ...errors import UserError
from .pixel_attention import refuse_pixel_attention
from .quarters import (
    CENTER,
    CORNERS,
    Positions,
    masked_patch_ids,
    quarter_offset,
    sample_positions,
)


@MODELS.register_module()
class QBHeat(BaseModel):
    """Quarter-block prediction guided by the heat equation.

    An encoder sees one quarter of the image; linear models extrapolate its
    features to the other three quarters, a small decoder paints the pixels,
    and the loss compares them with the image. After pre-training the
    encoder, ``backbone``, is what is kept.

    It follows mmpretrain's contract of self-supervised algorithms without
    inheriting its base class: importing that class imports mmdet and mmcv's
    compiled ops, which pre-training does not need.

    Args:
        backbone (dict): Any convolutional backbone; its last output, divided
            by ``head.patch_size``, is what is predicted from.
        predictor (dict): Config of :class:`QBHeatPredictor`.
        neck (dict): Config of the decoder, :class:`QBHeatDecoder`.
        head (dict): Config of :class:`QBHeatPretrainHead`.
        position (str): Place of the unmasked quarter: ``'corner'``,
            ``'center'`` or ``'mixed'``. Defaults to 'mixed'.
        num_models (int): Explicit linear models per scale: 2, 4 or 8.
            Defaults to 8.
        allow_pixel_attention (bool): Take a backbone that attends among
            pixels all the same. Defaults to False.
        data_preprocessor (dict, optional): Defaults to mmpretrain's
            ``SelfSupDataPreprocessor``.
        init_cfg (dict, optional): Initialization of the whole model.

    Raises:
        UserError: The backbone attends among pixels; a wrong position or
            number of models; parts whose widths or patches differ.
    """

    @checked(allow_pixel_attention=BOOL)
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
        if not allow_pixel_attention:
            refuse_pixel_attention(self.backbone)

    def _check_parts(self) -> None:
        """Compare what predictor, neck and head must agree on."""
        for first, second, name in (('predictor', 'neck', 'embed_dims'),
                                    ('neck', 'head', 'patch_size')):
            sizes = [getattr(getattr(self, part), name, None)
                     for part in (first, second)]
            if None not in sizes and sizes[0] != sizes[1]:
                raise UserError(
                    f'model.{first}.{name}={sizes[0]} and '
                    f'model.{second}.{name}={sizes[1]} must be the same')

    def forward(self,
                inputs: Tensor,
                data_samples: list | None = None,
                mode: str = 'tensor'
                ) -> dict[str, Tensor] | tuple[Tensor, ...]:
        """The entry that mmengine's runner calls.

        Args:
            inputs (Tensor): Images, (B, 3, H, W).
            data_samples (list, optional): Not used.
            mode (str): ``'loss'``, or ``'tensor'`` for the encoder's
                features of the whole images.

        Returns:
            dict[str, Tensor] | tuple[Tensor]: Losses or features.
        """
        if mode == 'loss':
            return self.loss(inputs, data_samples)
        if mode == 'tensor':
            return self.extract_feat(inputs)
        raise RuntimeError(f"mode={mode!r}: QBHeat has 'loss' and 'tensor'")

    def extract_feat(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Features of whole images (B, 3, H, W), as the backbone's."""
        return self.backbone(inputs)

    def loss(self,
             inputs: Tensor,
             data_samples: list | None = None) -> dict[str, Tensor]:
        """The pre-training loss of images (B, 3, H, W)."""
        positions = sample_positions(len(inputs), self.position)
        masked = masked_patch_ids(
            positions, *self._grid(inputs)).to(inputs.device, non_blocking=True)
        pred = self.predict_pixels(inputs, positions, masked)
        return dict(loss=self.head.loss_at(pred, inputs, masked))

    def predict_pixels(self, images: Tensor, positions: Positions,
              masked_ids: Tensor | None = None) -> Tensor:
        """Paint patches from one quarter of each image.

        Args:
            images (Tensor): (B, 3, H, W).
            positions (Sequence[tuple[str, int]]): Where the quarters stand.
            masked_ids (Tensor, optional): (B, M), int64: the patches to
                paint, counted in rows. Defaults to all L.

        Returns:
            Tensor: (B, L or M, patch_size**2 * 3); normalized patch by patch
            if ``head.norm_pix``.
        """
        quarters = self.crop(images, positions)
        feats = self.encode(quarters)
        return self.neck(self.predictor(feats, positions), masked_ids)

    def crop(self, images: Tensor, positions: Positions) -> Tensor:
        """Cut the unmasked quarters, (B, 3, H / 2, W / 2)."""
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
        """The encoder's last features of the quarters, (B, C, h, w)."""
        feats = self.backbone(quarters)[-1]
        stride = self.head.patch_size
        expected = (self.predictor.in_channels, quarters.shape[2] // stride,
                    quarters.shape[3] // stride)
        if tuple(feats.shape[1:]) != expected:
            raise UserError(
                f'the last features of {type(self.backbone).__name__} are '
                f'{tuple(feats.shape[1:])} (C, h, w), where {expected} is '
                f'expected: predictor.in_channels={expected[0]}, and '
                f'head.patch_size={stride} and neck.patch_size must be the '
                'stride of the backbone')
        return feats

    def mask(self, images: Tensor, positions: Positions) -> Tensor:
        """1 for masked patches, 0 for those of the quarter, (B, L)."""
        height, width = self._grid(images)
        masked = masked_patch_ids(positions, height, width)
        mask = torch.zeros(len(images), height * width)
        return mask.scatter_(1, masked, 1).to(images)

    def _grid(self, images: Tensor) -> list[int]:
        """Rows and columns of patches."""
        return [n // self.head.patch_size for n in images.shape[2:]]

    @torch.no_grad()
    def reconstruct(self, images: Tensor, position: str) -> dict[str, Tensor]:
        """Paint whole images from one quarter of each.

        Args:
            images (Tensor): Normalized images, (B, 3, H, W).
            position (str): A corner (``'top_left'`` ...) or ``'center'``.

        Returns:
            dict[str, Tensor]: ``pred``, the painted images in the units of
            the target (each patch has zero mean and unit variance if
            ``head.norm_pix``), and ``mask``, 1 where the encoder saw
            nothing; (B, 3, H, W) and (B, 1, H, W).

        Raises:
            UserError: An unknown position.
        """
        if position not in (*CORNERS, CENTER):
            raise UserError(f'position={position!r} is not one of '
                             f'{", ".join((*CORNERS, CENTER))}')
        positions = [(position, len(images))]
        height, width = images.shape[2:]
        pred = self.head.unpatchify(
            self.predict_pixels(images, positions), height, width)
        mask = torch.ones_like(images[:, :1])
        top, left = quarter_offset(position, height, width)
        mask[..., top:top + height // 2, left:left + width // 2] = 0
        return dict(pred=pred, mask=mask)

    @property
    def size_unit(self) -> int:
        """What height and width of images must be multiples of.

        The quarter, or each of its four sub-blocks, is whole patches.
        """
        parts = 2 if self.position == 'corner' else 4
        return parts * self.head.patch_size

    def _check_size(self, height: int, width: int) -> None:
        unit = self.size_unit
        if height % unit or width % unit:
            fit = [max(round(n / unit), 1) * unit for n in (height, width)]
            raise UserError(
                f'images of {height}x{width} pixels do not divide: with '
                f'position={self.position!r} and patches of '
                f'{self.head.patch_size} pixels height and width must be '
                f'multiples of {unit}; the nearest fit is {fit[0]}x{fit[1]} '
                '(the scale of RandomResizedCrop in the train pipeline)')

    def get_layer_depth(self, param_name: str) -> tuple[int, int]:
        """Depth of a parameter, see the backbone's method."""
        return self.backbone.get_layer_depth(param_name, 'backbone.')
