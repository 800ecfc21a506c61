# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Trained models as functions of tensors that torch.export can trace."""
import copy
from collections.abc import Sequence

import torch
from mmcv.cnn import fuse_conv_bn
from mmpretrain.models import ImageClassifier
from torch import Tensor, nn

from ..errors import UserError
from ..models.backbones import MobileFormer, TimmEncoder
from ..trained.encoder import Encoder
from ..trained.normalization import Normalize

#: Names of the inputs: images, and (B, 2) heights and widths of the images
#: within a padded batch.
IMAGES, SIZES = 'images', 'image_sizes'


class Network(nn.Module):
    """An encoder and what turns its features into named outputs.

    Subclasses implement :meth:`decode`.

    Args:
        model (nn.Module): The trained model, with a ``backbone``.

    Attributes:
        kind (str): E.g. ``'classifier'``.
        inputs, outputs (tuple[str, ...]): Names.
        stride (int): Stride of the coarsest map.
        normalize (Normalize, optional): If set, images are (B, H, W, 3),
            RGB, uint8, instead of normalized (B, 3, H, W), float32.
    """
    kind = ''
    inputs: tuple[str, ...] = (IMAGES, )
    outputs: tuple[str, ...] = ()
    stride = 32

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.normalize: Normalize | None = None
        self.eval()

    def forward(self, images: Tensor,
                image_sizes: Tensor | None = None) -> dict[str, Tensor]:
        """Compute the outputs.

        Args:
            images (Tensor): See :attr:`normalize`.
            image_sizes (Tensor, optional): Heights and widths, (B, 2),
                int64, within a padded batch. Normalized images must be zero
                in the padding. Defaults to None: nothing is padded.
        """
        images = self.normalized(images, image_sizes)
        return self.decode(self.encode(images), images.shape[2:], image_sizes)

    def normalized(self, images: Tensor,
                   image_sizes: Tensor | None) -> Tensor:
        """The input as normalized images, (B, 3, H, W)."""
        if self.normalize is None:
            return images
        # TensorRT takes uint8 into nothing but a cast.
        images = self.normalize(images.float().permute(0, 3, 1, 2))
        if image_sizes is None:
            return images
        return torch.where(inside(images, image_sizes), images, 0.)

    def encode(self, images: Tensor) -> tuple[Tensor, ...]:
        """Normalized images (B, 3, H, W) to features."""
        return self.model.backbone(images)

    def decode(self, feats: tuple[Tensor, ...], shape: Sequence[int],
               image_sizes: Tensor | None = None) -> dict[str, Tensor]:
        """Features of images of shape (H, W) to the outputs by name."""
        raise NotImplementedError


class EncoderNetwork(Network):
    """The features of an encoder.

    Args:
        encoder (Encoder): The encoder.

    Raises:
        UserError: If an output appears twice.
    """
    kind = 'encoder'

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        with torch.no_grad():
            outs = encoder(torch.zeros(1, 3, 128, 128))
        self.outputs = _output_names(encoder.backbone, len(outs))
        if len(set(self.outputs)) < len(outs):
            raise UserError(f'out_indices select {", ".join(self.outputs)}: '
                            'give each index once')
        if isinstance(encoder.backbone, MobileFormer):
            # It stops after the last stage that is needed.
            sides = [out.shape[-1] for out in outs if out.ndim == 4]
            self.stride = 128 // min(sides, default=4)

    def encode(self, images: Tensor) -> tuple[Tensor, ...]:
        """Normalized images (B, 3, H, W) to features."""
        return self.model(images)

    def decode(self, feats: tuple[Tensor, ...], shape: Sequence[int],
               image_sizes: Tensor | None = None) -> dict[str, Tensor]:
        """Name the features."""
        return dict(zip(self.outputs, feats))


class ClassifierNetwork(Network):
    """The logits, (B, classes), of an ``ImageClassifier`` of mmpretrain.

    Args:
        model (ImageClassifier): The classifier.

    Raises:
        UserError: If its head returns no logits.
    """
    kind = 'classifier'
    outputs = ('logits', )

    def __init__(self, model: ImageClassifier) -> None:
        super().__init__(model)
        # MultiTaskHead returns a dict; without a head there are features.
        if not model.with_head or hasattr(model.head, 'task_heads'):
            raise UserError(
                f'a classifier with {type(model.head).__name__} returns no '
                'logits and cannot be exported; its encoder can (--part '
                'encoder)')

    def decode(self, feats: tuple[Tensor, ...], shape: Sequence[int],
               image_sizes: Tensor | None = None) -> dict[str, Tensor]:
        """Classify."""
        if self.model.with_neck:
            feats = self.model.neck(feats)
        return dict(logits=self.model.head(feats))


def folded(module: nn.Module) -> nn.Module:
    """Copy a module and fold BN into the convolutions defined before it.

    This is wrong where a module calls its layers in another order, as the
    blocks of RepViT do, or where BN contains an activation, as timm's.
    """
    copied = fuse_conv_bn(copy.deepcopy(module).requires_grad_(False))
    copied.eval()  # returns None for a ResNet
    return copied


def inside(images: Tensor, image_sizes: Tensor) -> Tensor:
    """Mark the pixels of (B, 3, H, W) that are not padding, (B, 1, H, W)."""
    height, width = images.shape[2:]
    rows = torch.arange(
        height, device=images.device) < image_sizes[:, 0, None]
    columns = torch.arange(
        width, device=images.device) < image_sizes[:, 1, None]
    return rows[:, None, :, None] & columns[:, None, None, :]


def _output_names(backbone: nn.Module, number: int) -> tuple[str, ...]:
    indices = getattr(backbone, 'out_indices', None)
    if isinstance(backbone, MobileFormer):
        last = {backbone.num_stages: 'features',
                backbone.num_stages + 1: 'tokens'}
        return tuple(last.get(i, f'stage_{i}') for i in indices)
    if number == 1:
        return ('features', )
    if isinstance(indices, tuple | list) and len(indices) == number:
        # Other networks return their outputs from the first to the last.
        if not isinstance(backbone, TimmEncoder):
            indices = sorted(indices)
        return tuple(f'stage_{i}' for i in indices)
    return tuple(f'output_{i}' for i in range(number))
