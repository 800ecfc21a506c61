# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The template of masked image modeling: mask, encode, predict, compare."""
from abc import abstractmethod

import torch.nn.functional as F
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from ...errors import UserError
from ..layers.transformer import pick
from .self_supervisor import SelfSupervisor


class MaskedImageModel(SelfSupervisor):
    """Predict the masked patches of an image from its visible ones.

    Subclasses say which patches are masked, and what the encoder sees, in
    :meth:`predict_masked`.

    Args:
        backbone (dict): Any convolutional backbone whose last output has
            stride ``head.patch_size``.
        predictor (dict): Config of :class:`QBHeatPredictor`.
        neck (dict): Config of the decoder, :class:`QBHeatDecoder`.
        head (dict): Config of :class:`QBHeatPretrainHead`.
        target_generator (dict, optional): See :class:`SelfSupervisor`.
            Targets are compared by the smooth L1 loss; the decoder's
            ``out_channels`` default to theirs.
        with_pixels (bool): Predict pixels as well, after the channels of
            ``target_generator``. Defaults to False.
        **kwargs: See :class:`SelfSupervisor`.

    Raises:
        UserError: If widths or patch sizes of the parts differ.
    """

    def __init__(self,
                 backbone: dict,
                 predictor: dict,
                 neck: dict,
                 head: dict,
                 target_generator: dict | None = None,
                 with_pixels: bool = False,
                 **kwargs) -> None:
        super().__init__(backbone, target_generator, **kwargs)
        self.predictor = MMPRETRAIN_MODELS.build(predictor)
        self.head = MMPRETRAIN_MODELS.build(head)
        self.with_pixels = with_pixels or self.target_generator is None
        self.neck = MMPRETRAIN_MODELS.build(self._with_channels(neck))
        self._check_parts()

    def _with_channels(self, neck: dict) -> dict:
        """Set the decoder's channels to those of the targets."""
        if self.target_generator is None or neck.get('out_channels'):
            return neck
        channels = self.target_generator.channels
        if channels is None:
            return neck
        return dict(neck, out_channels=channels + self._pixel_channels())

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
        """Compile the decoder and, on a GPU, the encoder."""
        super().compile(*args, **kwargs)
        self.neck.compile(*args, **kwargs)

    def loss(self,
             inputs: Tensor,
             data_samples: list | None = None) -> dict[str, Tensor]:
        """Compute the pre-training loss of images (B, 3, H, W)."""
        pred, masked_ids = self.predict_masked(inputs)
        return self.compare(pred, inputs, data_samples, masked_ids)

    @abstractmethod
    def predict_masked(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mask images (B, 3, H, W) and predict their masked patches.

        Returns:
            tuple[Tensor, Tensor]: Predictions, (B, M, D), and row-major ids
            of the patches, (B, M), int64.
        """

    def encode(self, images: Tensor) -> Tensor:
        """Encode images (B, 3, H, W) to the last features, (B, C, h, w)."""
        feats = self._run(self.backbone, nn.Conv2d, images)[-1]
        stride = self.head.patch_size
        expected = (self.predictor.in_channels, images.shape[2] // stride,
                    images.shape[3] // stride)
        if tuple(feats.shape[1:]) != expected:
            raise UserError(
                f'{type(self.backbone).__name__} returns features of shape '
                f'{tuple(feats.shape[1:])} (C, h, w), not {expected}: set '
                f'model.predictor.in_channels (now {expected[0]}) to its '
                f'channels, and head.patch_size (now {stride}) and '
                'neck.patch_size to its stride')
        return feats

    def decode(self, z: Tensor, masked_ids: Tensor | None = None) -> Tensor:
        """Decode features (B, h, w, D); see :class:`QBHeatDecoder`."""
        return self._run(self.neck, nn.Linear, z, masked_ids)

    def compare(self, pred: Tensor, images: Tensor,
                data_samples: list | None,
                masked_ids: Tensor) -> dict[str, Tensor]:
        """Return the losses of predictions (B, M, D).

        Raises:
            UserError: If the decoder has another width than the targets.
        """
        if self.target_generator is None:
            return dict(loss=self.head.loss(
                pred, images, masked_ids=masked_ids))
        target = pick(self.target_generator(
            images, data_samples, self._grid(images)), masked_ids)
        channels = target.shape[2]
        width = channels + self._pixel_channels()
        if pred.shape[2] != width:
            raise UserError(f'model.neck.out_channels={pred.shape[2]}, but '
                            f'the targets have {width} channels')
        losses = dict(loss=F.smooth_l1_loss(pred[..., :channels], target))
        if self.with_pixels:
            losses['loss_pixels'] = self.head.loss(
                pred[..., channels:], images, masked_ids=masked_ids)
        return losses

    def _pixel_channels(self) -> int:
        return 3 * self.head.patch_size**2 if self.with_pixels else 0

    def _grid(self, images: Tensor) -> tuple[int, int]:
        """Rows and columns of patches."""
        height, width = images.shape[2:]
        return height // self.head.patch_size, width // self.head.patch_size

    @property
    def size_unit(self) -> int:
        """The divisor of valid image heights and widths."""
        return self.head.patch_size

    def _check_size(self, height: int, width: int) -> None:
        unit = self.size_unit
        if height % unit or width % unit:
            fit = [max(round(n / unit), 1) * unit for n in (height, width)]
            raise UserError(
                f'{type(self).__name__}: height and width of images of '
                f'{height}x{width} pixels must be multiples of {unit}, whole '
                f'patches of {self.head.patch_size} pixels in every part. Set '
                f'the scale of RandomResizedCrop to {fit[0]}x{fit[1]}')
