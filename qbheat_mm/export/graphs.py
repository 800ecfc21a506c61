# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoder and classifier as functions of tensors, ready to be exported."""
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from mmcv.cnn import fuse_conv_bn
from torch import Tensor, nn

from ..engine.origin import Pixels
from ..errors import UserError
from ..models.backbones import MobileFormer
from .source import Source

#: Names of the inputs: pictures or normalised pixels, and (B, 2) heights and
#: widths of the images within a padded batch.
IMAGES, SIZES = 'images', 'image_sizes'


_OF_MAPS = (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.AvgPool2d)


@dataclass(frozen=True)
class Graph:
    """A network and what there is to know to call it.

    Attributes:
        module (nn.Module): From :attr:`inputs` to a dict of :attr:`outputs`.
        reference (Callable): The same, by the toolbox's own functions on the
            original network; what the exported one is compared with.
        inputs (tuple[str, ...]): Names; ``('images', )`` or with
            ``'image_sizes'``.
        outputs (tuple[str, ...]): Names.
        kind (str): As ``'classifier'``.
        stride (int): Of the coarsest map.
        pictures (bool): Whether images are (B, H, W, 3), RGB, uint8, instead
            of normalised (B, 3, H, W), float32.
        facts (Mapping[str, str]): What is written into the file.
    """
    module: nn.Module
    reference: Callable[..., Mapping[str, Tensor]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kind: str
    stride: int
    pictures: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


class EncoderNetwork(nn.Module):
    """Images to the outputs of an encoder, by name.

    Args:
        encoder (nn.Module): A backbone.
        names (tuple[str, ...]): Of its outputs.
    """

    def __init__(self, encoder: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.encoder = encoder
        self.names = names

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """(B, 3, H, W), normalised, to maps, tokens or vectors."""
        return dict(zip(self.names, self.encoder(images)))


class ClassifierNetwork(nn.Module):
    """Images to logits.

    Args:
        model (nn.Module): mmpretrain's ``ImageClassifier``.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.backbone, self.neck, self.head = (
            model.backbone, model.neck, model.head)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """(B, 3, H, W), normalised, to (B, classes)."""
        feats = self.backbone(images)
        if self.neck is not None:
            feats = self.neck(feats)
        return dict(logits=self.head(feats))


class Normalize(nn.Module):
    """From pictures to a network's pixels.

    Args:
        pixels (Pixels): Mean, deviation and channel order.
    """

    def __init__(self, pixels: Pixels) -> None:
        super().__init__()
        self.rgb = pixels.rgb
        for name, values in (('mean', pixels.mean or (0., ) * 3),
                             ('std', pixels.std or (1., ) * 3)):
            self.register_buffer(name, torch.tensor(values)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        """(B, H, W, 3), RGB, 0 to 255, to (B, 3, H, W), normalised."""
        x = images.permute(0, 3, 1, 2).to(torch.float32)
        x = x if self.rgb else x.flip(1)
        return (x - self.mean) / self.std


class FromPictures(nn.Module):
    """A network behind its preprocessing.

    Args:
        network (nn.Module): From normalised images.
        pixels (Pixels): That it was trained with.
    """

    def __init__(self, network: nn.Module, pixels: Pixels) -> None:
        super().__init__()
        self.normalize = Normalize(pixels)
        self.network = network

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Pictures (B, H, W, 3), RGB, uint8."""
        return self.network(self.normalize(images))


class FromPaddedPictures(FromPictures):
    """The same where a batch is padded, which mmdet does after normalising."""

    def forward(self, images: Tensor,
                image_sizes: Tensor) -> dict[str, Tensor]:
        """Pictures (B, H, W, 3), RGB, uint8, and their sizes, (B, 2)."""
        height, width = images.shape[1:3]
        rows = torch.arange(height, device=images.device) < image_sizes[:, :1]
        columns = torch.arange(width, device=images.device) < image_sizes[
            :, 1:]
        inside = rows[:, None, :, None] & columns[:, None, None, :]
        x = self.normalize(images)
        return self.network(torch.where(inside, x, 0.), image_sizes)


def encoder_graph(source: Source) -> Graph:
    """An encoder's outputs.

    Raises:
        UserError: If an output is no tensor.
    """
    encoder = source.model
    outputs, stride = _run(encoder)
    if not isinstance(outputs, tuple | list) or not all(
            isinstance(output, Tensor) for output in outputs):
        raise UserError(f'{type(encoder).__name__} cannot be exported: its '
                        'outputs are not a tuple of tensors')
    names = _names(encoder, len(outputs))
    if len(set(names)) < len(names):
        raise UserError(f'the outputs would be {", ".join(names)}, of which '
                        'two are one: give each index of --out-indices once')

    def reference(images: Tensor) -> dict[str, Tensor]:
        return dict(zip(names, encoder(images)))

    return Graph(
        EncoderNetwork(folded(encoder), names), reference, (IMAGES, ), names,
        'encoder', stride)


def _run(encoder: nn.Module) -> tuple[object, int]:
    """The outputs of a blank image, and the stride of the coarsest map.

    A map that is not among the outputs is computed all the same, as by
    ResNet, and an image must be large enough for it.
    """
    side, sides = 128, []

    def note(module: nn.Module, inputs: tuple, output: object) -> None:
        for each in output if isinstance(output, tuple | list) else [output]:
            if isinstance(each, Tensor) and each.ndim == 4:
                # Weights of channels, as of squeeze and excitation, have 1.
                sides.extend([each.shape[-1]] * (min(each.shape[-2:]) > 1))

    hooks = [part.register_forward_hook(note) for part in encoder.modules()
             if part is encoder or isinstance(part, _OF_MAPS)]
    try:
        with torch.no_grad():
            outputs = encoder(torch.zeros(1, 3, side, side))
    finally:
        for hook in hooks:
            hook.remove()
    return outputs, side // min(sides) if sides else 32


def classifier_graph(source: Source) -> Graph:
    """Logits of one of mmpretrain's classifiers.

    Raises:
        UserError: If its head gives none.
    """
    model = source.model
    if not _gives_logits(model):
        head = type(model.head).__name__ if model.with_head else 'no head'
        raise UserError(
            f'a classifier with {head} cannot be exported: it gives no '
            'logits, (images, classes); its encoder can (--part encoder)')

    def reference(images: Tensor) -> dict[str, Tensor]:
        return dict(logits=model(images, mode='tensor'))

    return Graph(
        ClassifierNetwork(folded(model)), reference, (IMAGES, ),
        ('logits', ), 'classifier', 32)


def _gives_logits(model: nn.Module) -> bool:
    """Whether a classifier's head ends in numbers for the classes."""
    if not model.with_head:
        return False
    try:
        with torch.no_grad():
            logits = model(torch.zeros(2, 3, 128, 128), mode='tensor')
    except NotImplementedError:
        return False
    # It may want another size, which whoever traces it will see.
    except Exception:
        return True
    return isinstance(logits, Tensor) and logits.ndim == 2


def folded(model: nn.Module) -> nn.Module:
    """A copy whose BN are folded into the convolutions before them."""
    copied = fuse_conv_bn(copy.deepcopy(model))
    copied.requires_grad_(False)
    copied.eval()
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
