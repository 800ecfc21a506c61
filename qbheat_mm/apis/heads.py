# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run several heads on the features of one frozen encoder."""
import copy
from collections.abc import Mapping, Sequence

import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from mmengine.registry import MODELS, DefaultScope
from mmengine.structures import BaseDataElement
from mmpretrain.models import ImageClassifier
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from ..errors import UserError
from ..export.model import load_model
from ..export.programs import relative_difference
from ..utils.settings import backbone_settings
from .encoder import open_config

#: Largest accepted difference of features, relative to the largest.
_TOLERANCE = 1e-5


@MODELS.register_module()
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
    """Classifiers and detectors that share an encoder, see :func:`load_heads`.

    A batch is prepared once, for all heads. Its images are padded to a common
    size that ``pad_size_divisor`` of every head divides, so a classifier sees
    the padding that a detector needs, just as if it got that batch alone.

    Args:
        encoder (nn.Module): Normalized images (B, 3, H, W) to a tuple of
            features.
        heads (Mapping[str, nn.Module]): Models by name, with
            :class:`SharedFeatures` as backbone.
        outputs (Mapping[str, Sequence[int]]): For each head, which of the
            encoder's outputs it takes, in its order.

    Attributes:
        encoder (nn.Module): As given.
        heads (nn.ModuleDict): The models; each has ``classes``, ``weights``
            and ``normalization``, as of :func:`qbheat_mm.export.load_model`.
        outputs (dict[str, tuple[int]]): As given.
    """

    def __init__(self, encoder: nn.Module, heads: Mapping[str, nn.Module],
                 outputs: Mapping[str, Sequence[int]]) -> None:
        super().__init__(_preprocessor(heads))
        self.encoder = encoder
        self.heads = nn.ModuleDict(heads)
        self.outputs = {name: tuple(ids) for name, ids in outputs.items()}
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
        features = _features(self.encoder, inputs)
        return {name: tuple(features[i] for i in ids)
                for name, ids in self.outputs.items()}


def load_heads(heads: Mapping[str, tuple[str | Config, str]],
               device: str = 'cpu') -> Heads:
    """Load models that were trained on the same frozen encoder.

    Args:
        heads (Mapping[str, tuple[str | Config, str]]): Config and checkpoint
            of each run by a name: classifiers of mmpretrain and detectors of
            mmdet.
        device (str): Defaults to 'cpu'.

    Returns:
        Heads: Runs the encoder once for all of them.

    Raises:
        FileNotFoundError: If a checkpoint is missing.
        UserError: If a checkpoint does not fit its config, or the encoders
            or their input differ.

    Examples:
        >>> heads = load_heads({'classes': ('lin.py', 'lin.pth'),
        ...                     'boxes': ('retinanet.py', 'retinanet.pth')})
        >>> found = heads.predict(torch.zeros(1, 3, 320, 320))
        >>> found['classes'][0].pred_label, found['boxes'][0].pred_instances
    """
    if not heads:
        raise UserError('no heads: give one or more, as '
                        '{name: (config, checkpoint)}')
    runs = [_Run(name, *files) for name, files in heads.items()]
    base = max(runs, key=lambda run: len(run.state))
    for run in runs:
        _require_same_input(base, run)
        _require_same_weights(base, run)
    encoder, indices = _union(base, runs)
    outputs = {run.name: [indices.index(i) for i in run.indices]
               for run in runs}
    for run in runs:
        _require_same_features(encoder, base, run, outputs[run.name])
    return Heads(encoder, {run.name: run.head for run in runs},
                 outputs).to(torch.device(device))


class _Run:
    """A trained model: its own encoder, and the rest on shared features."""

    def __init__(self, name: str, config: str | Config,
                 checkpoint: str) -> None:
        cfg = copy.deepcopy(open_config(config))
        if 'module' in cfg.model:  # test-time augmentation
            cfg.model = cfg.model['module']
        model = load_model(cfg, checkpoint)
        if not _is_head(model) or 'backbone' not in cfg.model:
            raise UserError(
                f"head '{name}': {type(model).__name__} of '{checkpoint}' is "
                'neither a classifier of mmpretrain nor a detector of mmdet '
                'with a backbone')
        self.name, self.checkpoint = name, checkpoint
        self.backbone = model.backbone
        self.state = model.backbone.state_dict()
        self.settings = backbone_settings(cfg)
        cfg.model.backbone = dict(type=SharedFeatures.__name__)
        self.head = load_model(cfg, checkpoint)
        with torch.no_grad():
            self.features = _features(self.backbone, _example())
        indices = getattr(self.backbone, 'out_indices', None)
        self.indices = range(len(self.features)) if indices is None else (
            tuple(indices))

    def __str__(self) -> str:
        return f"'{self.name}' ({self.checkpoint})"


def _is_head(model: nn.Module) -> bool:
    if isinstance(model, ImageClassifier):
        return True
    try:
        from mmdet.models import BaseDetector
    except ImportError:
        return False
    return isinstance(model, BaseDetector)


def _features(backbone: nn.Module, images: Tensor) -> tuple[Tensor, ...]:
    """The outputs of a backbone."""
    outs = backbone(images)
    return (outs, ) if isinstance(outs, Tensor) else tuple(outs)


def _example() -> Tensor:
    """Two images of noise, (2, 3, 96, 128)."""
    return torch.randn(2, 3, 96, 128,
                       generator=torch.Generator().manual_seed(0))


def _require_same_input(base: _Run, run: _Run) -> None:
    ours, theirs = base.head.normalization, run.head.normalization
    if ours != theirs:
        raise UserError(
            f'heads {base} and {run} normalize images differently ({ours} '
            f'and {theirs}): train them with the same '
            'model.data_preprocessor')


def _require_same_weights(base: _Run, run: _Run) -> None:
    """Raise UserError unless the encoder of ``base`` contains the other."""
    kinds = [type(each.backbone).__name__ for each in (base, run)]
    shapes = {name: tensor.shape for name, tensor in base.state.items()}
    other = [f'{name} {tuple(tensor.shape)}'
             for name, tensor in run.state.items()
             if shapes.get(name) != tensor.shape]
    if kinds[0] != kinds[1] or other:
        raise UserError(
            f'heads {base} and {run} have encoders of different '
            f'architecture, {" and ".join(kinds)}'
            + (f': the first has no {other[0]}' if other else ''))
    for name, tensor in run.state.items():
        if not torch.equal(tensor, base.state[name]):
            raise UserError(
                f'heads {base} and {run} have different encoders, first in '
                f'{name}: one was fine-tuned; train both on the same frozen '
                'encoder (model.backbone.frozen_stages)')


def _union(base: _Run, runs: Sequence[_Run]) -> tuple[nn.Module, list[int]]:
    """The encoder of ``base`` with the outputs of all, and their indices."""
    indices = sorted(set().union(*(run.indices for run in runs)))
    if indices == list(base.indices):
        return base.backbone, indices
    with DefaultScope.overwrite_default_scope('mmengine'):
        encoder = MODELS.build({**base.settings, 'out_indices': indices})
    encoder.load_state_dict(base.state)
    encoder.requires_grad_(False).eval()
    return encoder, indices


def _require_same_features(encoder: nn.Module, base: _Run, run: _Run,
                           ids: Sequence[int]) -> None:
    """Raise UserError if a head gets other features than it was trained on.

    Settings such as strides change no tensor of an encoder.
    """
    with torch.no_grad():
        found = _features(encoder, _example())
    for i, expected in zip(ids, run.features, strict=True):
        if relative_difference(found[i], expected) > _TOLERANCE:
            other = [name for name in {**base.settings, **run.settings}
                     if base.settings.get(name) != run.settings.get(name)]
            raise UserError(
                f'heads {base} and {run} have encoders that compute '
                'different features from equal weights: compare '
                f'model.backbone of their configs ({", ".join(other)})')


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
