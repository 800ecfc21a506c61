# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders and classifiers as functions of tensors."""
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from mmcv.cnn import fuse_conv_bn
from torch import Tensor, nn

from ..errors import UserError
from ..models.backbones import MobileFormer
from ..models.layers.normalize import Normalization, Normalize
from .source import Source

#: Names of the inputs: images, and (B, 2) heights and widths of the images
#: within a padded batch.
IMAGES, SIZES = 'images', 'image_sizes'


@dataclass(frozen=True)
class Graph:
    """A network and how to call it.

    Attributes:
        module (nn.Module): From :attr:`inputs` to a dict of :attr:`outputs`.
        reference (Callable): The same on the original network, from
            normalized images; what the exported file is compared with.
        inputs (tuple[str, ...]): ``('images', )`` or
            ``('images', 'image_sizes')``.
        outputs (tuple[str, ...]): Names.
        kind (str): As ``'classifier'``.
        stride (int): Of the coarsest map.
        pictures (bool): Whether images are (B, H, W, 3), RGB, uint8, instead
            of normalized (B, 3, H, W), float32.
    """
    module: nn.Module
    reference: Callable[..., Mapping[str, Tensor]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kind: str
    stride: int
    pictures: bool = False


class EncoderNetwork(nn.Module):
    """Normalized images (B, 3, H, W) to an encoder's outputs by name."""

    def __init__(self, encoder: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.encoder = encoder
        self.names = names

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Encode."""
        return dict(zip(self.names, self.encoder(images)))


class ClassifierNetwork(nn.Module):
    """Normalized images (B, 3, H, W) to logits (B, classes)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Classify."""
        return dict(logits=self.model(images, mode='tensor'))


class FromPictures(nn.Module):
    """A network behind its normalization.

    Args:
        network (nn.Module): From normalized images.
        normalization (Normalization): Of its input.
    """

    def __init__(self, network: nn.Module,
                 normalization: Normalization) -> None:
        super().__init__()
        self.normalize = Normalize(normalization)
        self.network = network

    def forward(self, images: Tensor,
                image_sizes: Tensor | None = None) -> dict[str, Tensor]:
        """Normalize and run.

        Args:
            images (Tensor): (B, H, W, 3), RGB, uint8.
            image_sizes (Tensor, optional): Of a padded batch, (B, 2). mmdet
                pads after normalizing, with zeros.
        """
        x = self.normalize(images.permute(0, 3, 1, 2))
        if image_sizes is None:
            return self.network(x)
        rows, columns = (
            torch.arange(side, device=x.device) < image_sizes[:, i, None]
            for i, side in enumerate(x.shape[2:]))
        inside = rows[:, None, :, None] & columns[:, None, None, :]
        return self.network(torch.where(inside, x, 0.), image_sizes)


def encoder_graph(source: Source) -> Graph:
    """An encoder's outputs.

    Raises:
        UserError: If an output would be there twice.
    """
    encoder = source.model
    number, stride = _outputs_and_stride(encoder)
    names = _names(encoder, number)
    if len(set(names)) < len(names):
        raise UserError(f'out_indices give {", ".join(names)}: give each '
                        'index once')
    return Graph(
        EncoderNetwork(folded(encoder), names),
        EncoderNetwork(encoder, names), (IMAGES, ), names, 'encoder', stride)


@torch.no_grad()
def _outputs_and_stride(encoder: nn.Module) -> tuple[int, int]:
    """Number of outputs, and the stride of the coarsest map.

    A ResNet computes its coarsest map also where it is no output.
    """
    side, sides = 128, []

    def note(module: nn.Module, inputs: tuple, output: object) -> None:
        for each in output if isinstance(output, tuple | list) else [output]:
            # Weights of channels have one position, tokens no map.
            if each.ndim == 4 and min(each.shape[-2:]) > 1:
                sides.append(each.shape[-1])

    maps = nn.Conv2d | nn.BatchNorm2d | nn.MaxPool2d | nn.AvgPool2d
    hooks = [part.register_forward_hook(note) for part in encoder.modules()
             if part is encoder or isinstance(part, maps)]
    try:
        number = len(encoder(torch.zeros(1, 3, side, side)))
    finally:
        for hook in hooks:
            hook.remove()
    return number, side // min(sides) if sides else 32


def classifier_graph(source: Source) -> Graph:
    """Logits of one of mmpretrain's classifiers.

    Raises:
        UserError: If its head gives none.
    """
    model = source.model
    # MultiTaskHead gives a dict; without a head there are features.
    if not model.with_head or hasattr(model.head, 'task_heads'):
        raise UserError(
            f'a classifier with {type(model.head).__name__} gives no logits '
            'and cannot be exported; its encoder can (--part encoder)')
    return Graph(
        ClassifierNetwork(folded(model)), ClassifierNetwork(model),
        (IMAGES, ), ('logits', ), 'classifier', 32)


def folded(model: nn.Module) -> nn.Module:
    """A copy whose BN are folded into the convolutions before them."""
    copied = fuse_conv_bn(copy.deepcopy(model)).requires_grad_(False)
    copied.eval()  # of a ResNet it returns None
    return copied


def _names(encoder: nn.Module, number: int) -> tuple[str, ...]:
    """What the outputs of an encoder are called."""
    indices = getattr(encoder, 'out_indices', None)
    if isinstance(encoder, MobileFormer):
        last = {encoder.num_stages: 'features',
                encoder.num_stages + 1: 'tokens'}
        return tuple(last.get(i, f'stage_{i}') for i in indices)
    if number == 1:
        return ('features', )
    if isinstance(indices, tuple | list) and len(indices) == number:
        return tuple(f'stage_{i}' for i in indices)
    return tuple(f'output_{i}' for i in range(number))
