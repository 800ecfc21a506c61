# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Networks as functions of tensors, which torch.export can trace."""
import copy
from dataclasses import dataclass, replace

import torch
from mmcv.cnn import fuse_conv_bn
from mmengine.model import BaseModel
from mmpretrain.models import ImageClassifier
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
        module (nn.Module): From images, and sizes if :attr:`padded`, to a
            dict of :attr:`outputs`.
        outputs (tuple[str, ...]): Names.
        kind (str): As ``'classifier'``.
        stride (int): Of the coarsest map. Defaults to 32.
        padded (bool): Whether batches may be padded, with the images' sizes
            as an input. Defaults to False.
        pictures (bool): Whether images are (B, H, W, 3), RGB, uint8, instead
            of normalized (B, 3, H, W), float32. Defaults to False.
    """
    module: nn.Module
    outputs: tuple[str, ...]
    kind: str
    stride: int = 32
    padded: bool = False
    pictures: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names."""
        return (IMAGES, SIZES) if self.padded else (IMAGES, )


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
        return self.network(torch.where(inside(x, image_sizes), x, 0.),
                            image_sizes)


def inside(images: Tensor, image_sizes: Tensor) -> Tensor:
    """Where padded images (B, 3, H, W) are not padding, (B, 1, H, W)."""
    rows, columns = (
        torch.arange(side, device=images.device) < image_sizes[:, i, None]
        for i, side in enumerate(images.shape[2:]))
    return rows[:, None, :, None] & columns[:, None, None, :]


def make_graph(source: Source, preprocessing: bool = False) -> Graph:
    """The function of tensors that a network is.

    Args:
        source (Source): The network.
        preprocessing (bool): Whether to normalize inside. Defaults to False.

    Raises:
        UserError: If it is of a kind that cannot be exported, or its
            normalization is unknown.
    """
    if not isinstance(source.model, BaseModel):
        graph = encoder_graph(source.model)
    elif isinstance(source.model, ImageClassifier):
        graph = classifier_graph(source.model)
    else:
        from .detectors import detector_graph  # needs mmdet
        graph = detector_graph(source.model)
    if not preprocessing:
        return graph
    if source.normalization is None:
        raise UserError(
            f"'{source.checkpoint}' and its configuration do not say how "
            'images are normalized: set model.data_preprocessor, or leave '
            'out --with-preprocessing')
    return replace(
        graph, pictures=True,
        module=FromPictures(graph.module, source.normalization).eval())


def encoder_graph(encoder: nn.Module) -> Graph:
    """An encoder's outputs.

    Raises:
        UserError: If an output would be there twice.
    """
    with torch.no_grad():
        outs = encoder(torch.zeros(1, 3, 128, 128))
    names = _names(encoder, len(outs))
    if len(set(names)) < len(names):
        raise UserError(f'out_indices give {", ".join(names)}: give each '
                        'index once')
    stride = 32
    if isinstance(encoder, MobileFormer):  # computes no more than is asked
        stride = 128 // min((out.shape[-1] for out in outs if out.ndim == 4),
                            default=128 // stride)
    return Graph(
        EncoderNetwork(encoder, names).eval(), names, 'encoder', stride)


def classifier_graph(model: ImageClassifier) -> Graph:
    """Logits of one of mmpretrain's classifiers.

    Raises:
        UserError: If its head gives none.
    """
    # MultiTaskHead gives a dict; without a head there are features.
    if not model.with_head or hasattr(model.head, 'task_heads'):
        raise UserError(
            f'a classifier with {type(model.head).__name__} gives no logits '
            'and cannot be exported; its encoder can (--part encoder)')
    return Graph(ClassifierNetwork(model).eval(), ('logits', ), 'classifier')


def folded(module: nn.Module) -> nn.Module:
    """A copy whose BN are folded into the convolutions before them."""
    copied = fuse_conv_bn(copy.deepcopy(module)).requires_grad_(False)
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
