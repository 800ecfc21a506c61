# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Several heads that were trained on one frozen encoder."""
import copy
import json
import re
from collections.abc import Iterable, Mapping, Sequence

import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from mmengine.registry import MODELS, DefaultScope
from mmengine.structures import BaseDataElement
from mmpretrain.models import ImageClassifier
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from ..errors import UserError
from ..models.backbones import FrozenBackbone
from ..utils.settings import backbone_settings, type_name, unfrozen
from .encoder import Encoder
from .fit import few
from .model import TrainedModel, load_model


class Heads(BaseModel):
    """Classifiers and detectors that share an encoder.

    A batch is prepared once, for all heads. Its images are padded to a common
    size that ``pad_size_divisor`` of every head divides. The encoder doesn't
    mask padding, so neighbors in a batch change scores and move boxes.

    Args:
        encoder (Encoder): Encoder with all outputs that the heads take.
        heads (Mapping[str, TrainedModel]): Trained models by name, each with
            ``nn.Identity`` as backbone, so that it takes features as input.
        outputs (Mapping[str, Sequence[int]]): For each head, the indices of
            the encoder's outputs it takes, in its order.
        configs (Mapping[str, Config]): Config of each head's own run.

    Attributes:
        encoder (Encoder): As given.
        heads (nn.ModuleDict): The models.
        trained (dict[str, TrainedModel]): The models and their classes.
        outputs (dict[str, tuple[int]]): As given.
        configs (dict[str, Config]): As given.
    """

    def __init__(self, encoder: Encoder, heads: Mapping[str, TrainedModel],
                 outputs: Mapping[str, Sequence[int]],
                 configs: Mapping[str, Config]) -> None:
        models = nn.ModuleDict()
        for name, head in heads.items():
            models[name] = head.model
        super().__init__(_preprocessor(models.values()))
        self.encoder = encoder
        self.heads = models
        self.trained = dict(heads)
        self.outputs = dict(outputs)
        self.configs = dict(configs)
        self.eval()

    def select(self, names: Iterable[str]) -> 'Heads':
        """Return some of the heads, on the same encoder."""
        trained, outputs, configs = {}, {}, {}
        for name in names:
            trained[name] = self.trained[name]
            outputs[name] = self.outputs[name]
            configs[name] = self.configs[name]
        return Heads(self.encoder, trained, outputs, configs)

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
        pads images, as for any model of mmengine.

        Args:
            inputs (Tensor): Normalized images, (B, 3, H, W).
            data_samples (Sequence, optional): Data samples of mmdet or
                mmpretrain with the sizes of the images, left unchanged.
                Defaults to images that fill the batch.

        Returns:
            dict[str, list]: For each head a data sample per image, of
            mmpretrain for classifiers and of mmdet for detectors.
        """
        predictions = {}
        for name, features in self.encode(inputs).items():
            head = self.heads[name]
            predictions[name] = head.predict(
                features, _samples(head, inputs, data_samples))
        return predictions

    def encode(self, inputs: Tensor) -> dict[str, tuple[Tensor, ...]]:
        """Normalized images (B, 3, H, W) to the features of each head."""
        features, chosen = self.encoder(inputs), {}
        for name, indices in self.outputs.items():
            chosen[name] = tuple(features[i] for i in indices)
        return chosen


def load_heads(heads: Mapping[str, tuple[Config, str]],
               device: str = 'cpu') -> Heads:
    """Load models that were trained on the same frozen encoder.

    See :func:`qbheat_mm.apis.load_heads`, which also reads the configs.
    """
    if not heads:
        raise UserError('no heads: give one or more, as '
                        '{name: (config, checkpoint)}')
    for name in heads:
        if not re.fullmatch(r'[\w-]+', name) or hasattr(nn.ModuleDict, name):
            raise UserError(
                f'head {name!r}: names consist of letters, digits, _ and -, '
                'and must not shadow attributes of nn.ModuleDict')
    runs = [_Run(name, *files) for name, files in heads.items()]
    base = max(runs, key=lambda run: len(run.state))
    indices: set[int] = set()
    for run in runs:
        _require_same_encoder(base, run)
        indices.update(run.indices)
    order = sorted(indices)
    trained, outputs, configs = {}, {}, {}
    for run in runs:
        trained[run.name] = run.head
        outputs[run.name] = tuple(order.index(i) for i in run.indices)
        configs[run.name] = run.cfg
    heads = Heads(_with_outputs(base, order), trained, outputs, configs)
    return heads.to(torch.device(device))


class _Run:
    """A trained model, taken apart into encoder and head."""

    def __init__(self, name: str, cfg: Config, checkpoint: str) -> None:
        cfg = copy.deepcopy(cfg)
        if 'module' in cfg.model:  # test-time augmentation
            cfg.model = cfg.model['module']
        self.name, self.cfg = name, cfg
        self.head = load_model(cfg, checkpoint)
        model = self.head.model
        if not _is_head(model) or 'backbone' not in cfg.model:
            raise UserError(
                f"head '{name}': {type(model).__name__} of '{checkpoint}' is "
                'neither a classifier of mmpretrain nor a detector of mmdet '
                'with a backbone')
        if self.head.normalization is None:
            raise UserError(
                f"head '{name}': {type(model.data_preprocessor).__name__} "
                'does not say how images are normalized')
        backbone, model.backbone = model.backbone, nn.Identity()
        if isinstance(backbone, FrozenBackbone):
            backbone = backbone.network
        self.encoder = Encoder(
            backbone, self.head.normalization, checkpoint=checkpoint,
            settings=unfrozen(backbone_settings(cfg)))
        self.state = backbone.state_dict()
        self.indices = _output_indices(backbone)

    def __str__(self) -> str:
        return f"'{self.name}' ({self.head.checkpoint})"


def _is_head(model: nn.Module) -> bool:
    if isinstance(model, ImageClassifier):
        return True
    try:
        from mmdet.models import BaseDetector
    except ImportError:
        return False
    return isinstance(model, BaseDetector)


def _output_indices(backbone: nn.Module) -> tuple[int, ...]:
    """Which outputs a backbone returns; all of them if it has no choice."""
    indices = getattr(backbone, 'out_indices', None)
    if isinstance(indices, list | tuple):
        return tuple(indices)
    with torch.no_grad():
        outs = backbone(torch.zeros(1, 3, 128, 128))
    return tuple(range(len(outs)))


def _require_same_encoder(base: _Run, run: _Run) -> None:
    """Raise UserError unless the encoder of ``base`` is that of ``run``.

    Its outputs and the parts that only some of them need may differ.
    """
    ours, theirs = base.encoder.normalization, run.encoder.normalization
    if ours != theirs:
        raise UserError(
            f'heads {base} and {run} normalize images differently ({ours} '
            f'and {theirs}): train them with the same '
            'model.data_preprocessor')
    other = _different_settings(base.encoder.settings, run.encoder.settings)
    if other:
        raise UserError(
            f'heads {base} and {run} have different encoders, '
            f'{base.encoder.name} and {run.encoder.name}, with other settings '
            f'({few(other)}): compare model.backbone of their configs')
    other = []
    for name, tensor in run.state.items():
        if name not in base.state or not torch.equal(tensor, base.state[name]):
            other.append(name)
    if other:
        raise UserError(
            f'heads {base} and {run} have encoders whose tensors differ '
            f'({few(other)}): one was fine-tuned; train both on the same '
            'frozen encoder (model.backbone.frozen_stages)')


def _different_settings(ours: Mapping, theirs: Mapping) -> list[str]:
    """Names of the settings in which two backbones differ."""
    names = [] if type_name(ours) == type_name(theirs) else ['type']
    for name in {**ours, **theirs}:
        # JSON has no tuples, which encoder=FILE turns into lists.
        own = json.dumps(ours.get(name), default=repr)
        other = json.dumps(theirs.get(name), default=repr)
        if own != other and name not in ('type', 'out_indices', '_scope_'):
            names.append(name)
    return names


def _with_outputs(base: _Run, indices: list[int]) -> Encoder:
    """The encoder of a run, with other outputs."""
    own = base.encoder
    if indices == list(base.indices):
        return own
    with DefaultScope.overwrite_default_scope('mmengine'):
        backbone = MODELS.build({**own.settings, 'out_indices': indices})
    backbone.load_state_dict(base.state)
    backbone.requires_grad_(False)
    return Encoder(backbone, own.normalization, settings=own.settings,
                   checkpoint=own.checkpoint)


def _preprocessor(heads: Iterable[nn.Module]) -> nn.Module:
    """The preprocessor that pads most, of a detector if there is one.

    Raises:
        UserError: If the heads need different padding.
    """
    given = [head.data_preprocessor for head in heads]
    best = max(given, key=lambda part: (
        part.pad_size_divisor, type(part).__name__ != 'ClsDataPreprocessor'))
    for part in given:
        if best.pad_size_divisor % part.pad_size_divisor or (
                part.pad_value != best.pad_value):
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
        from mmdet.structures import DetDataSample
        kind = DetDataSample
    size = tuple(inputs.shape[-2:])
    known = dict(img_shape=size, ori_shape=size, scale_factor=(1., 1.),
                 pad_shape=size, batch_input_shape=size)
    samples = []
    for sample in given or [kind()] * len(inputs):
        facts = {**known, **sample.metainfo}
        samples.append(sample.new(metainfo=facts) if isinstance(sample, kind)
                       else kind(metainfo=facts))
    return samples
