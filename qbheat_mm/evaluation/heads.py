# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Several heads on one encoder."""
from collections.abc import Mapping, Sequence

import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from mmengine.structures import BaseDataElement
from mmpretrain.models import ImageClassifier
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from ..errors import UserError
from .encoder import Encoder


class SharedFeatures(nn.Module):
    """Stand in for the backbone of a head.

    Whatever the images, it returns the features that were set, so that each
    model of mmpretrain and mmdet predicts from them with its own code.

    Attributes:
        features (tuple[Tensor]): What to return.
    """

    def __init__(self) -> None:
        super().__init__()
        self.features: tuple[Tensor, ...] | None = None

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return the features."""
        return self.features


class Heads(BaseModel):
    """Classifiers and detectors that share an encoder.

    A batch is prepared once, for all heads. Its images are padded to a common
    size that ``pad_size_divisor`` of every head divides, so a classifier sees
    the padding that a detector needs, just as if it got that batch alone.

    Args:
        encoder (Encoder): With all outputs that the heads take.
        heads (Mapping[str, nn.Module]): Models by name, with
            :class:`SharedFeatures` as backbone.
        outputs (Mapping[str, Sequence[int]]): For each head, which of the
            encoder's outputs it takes, in its order.
        runs (Mapping[str, tuple[Config, str]]): Config and checkpoint of
            each head's own run.

    Attributes:
        encoder (Encoder): As given.
        heads (nn.ModuleDict): The models; each has ``classes``, ``weights``
            and ``normalization``, as of :func:`qbheat_mm.export.load_model`.
        outputs (dict[str, tuple[int]]): As given.
        runs (dict[str, tuple[Config, str]]): As given.
    """

    def __init__(self, encoder: Encoder, heads: Mapping[str, nn.Module],
                 outputs: Mapping[str, Sequence[int]],
                 runs: Mapping[str, tuple[Config, str]]) -> None:
        super().__init__(_preprocessor(heads))
        self.encoder = encoder
        self.heads = nn.ModuleDict(heads)
        self.outputs = {name: tuple(ids) for name, ids in outputs.items()}
        self.runs = dict(runs)
        self.eval()

    def forward(self, inputs: Tensor, data_samples: Sequence | None = None,
                mode: str = 'predict') -> dict[str, list]:
        """See :meth:`predict`, for ``test_step``."""
        if mode != 'predict':
            raise UserError(f'mode={mode!r}: heads are trained separately')
        return self.predict(inputs, data_samples)

    @torch.no_grad()
    def predict(self, inputs: Tensor, data_samples: Sequence | None = None
                ) -> dict[str, list]:
        """Predict with all heads.

        ``test_step(dict(inputs=..., data_samples=...))`` also normalizes and
        pads images, as of any model of mmengine.

        Args:
            inputs (Tensor): Normalized images, (B, 3, H, W).
            data_samples (Sequence, optional): Of mmdet or mmpretrain, with
                the sizes of the images. Defaults to images that fill the
                batch. They are not changed.

        Returns:
            dict[str, list]: For each head a data sample per image, of
            mmpretrain for classifiers and of mmdet for detectors.
        """
        found = {}
        for name, features in self.encode(inputs).items():
            head = self.heads[name]
            head.backbone.features = features
            found[name] = head.predict(
                inputs, _samples(head, inputs, data_samples))
            head.backbone.features = None
        return found

    def encode(self, inputs: Tensor) -> dict[str, tuple[Tensor, ...]]:
        """Normalized images (B, 3, H, W) to the features of each head."""
        features = self.encoder(inputs)
        return {name: tuple(features[i] for i in ids)
                for name, ids in self.outputs.items()}


def _preprocessor(heads: Mapping[str, nn.Module]) -> nn.Module:
    """The preprocessor that pads most, of a detector if there is one.

    Raises:
        UserError: If the heads need different padding.
    """
    given = [head.data_preprocessor for head in heads.values()]
    best = max(given, key=lambda each: (
        each.pad_size_divisor, type(each).__name__ != 'ClsDataPreprocessor'))
    for each in given:
        if best.pad_size_divisor % each.pad_size_divisor or (
                each.pad_value != best.pad_value):
            raise UserError('heads pad images differently: set equal '
                            'pad_size_divisor and pad_value of '
                            'model.data_preprocessor')
    return best


def _samples(head: nn.Module, inputs: Tensor,
             given: Sequence | None) -> list[BaseDataElement]:
    """Data samples for a head, with the sizes of the images."""
    if isinstance(head, ImageClassifier):
        kind = DataSample
    else:
        from mmdet.structures import DetDataSample as kind
    size = tuple(inputs.shape[-2:])
    known = dict(img_shape=size, ori_shape=size, scale_factor=(1., 1.),
                 pad_shape=size, batch_input_shape=size)
    samples = []
    for sample in given or [kind()] * len(inputs):
        facts = {**known, **sample.metainfo}
        samples.append(sample.new(metainfo=facts) if isinstance(sample, kind)
                       else kind(metainfo=facts))
    return samples
