# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Several heads that were trained on one frozen encoder."""
import copy
import re
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
from ..utils.modules import relative_difference
from .checkpoint import few
from .encoder import Encoder, open_config
from .encoder_config import backbone_settings
from .model import TrainedModel, load_model

#: Largest accepted difference of features, relative to the largest.
_TOLERANCE = 1e-5


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
        models = {name: head.model for name, head in heads.items()}
        super().__init__(_preprocessor(models))
        self.encoder = encoder
        self.heads = nn.ModuleDict(models)
        self.trained = dict(heads)
        self.outputs = {name: tuple(ids) for name, ids in outputs.items()}
        self.configs = dict(configs)
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
        return {name: self.heads[name].predict(
            features, _samples(self.heads[name], inputs, data_samples))
            for name, features in self.encode(inputs).items()}

    def encode(self, inputs: Tensor) -> dict[str, tuple[Tensor, ...]]:
        """Normalized images (B, 3, H, W) to the features of each head."""
        features = self.encoder(inputs)
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
    for name in heads:
        if not re.fullmatch(r'[\w-]+', name) or hasattr(nn.ModuleDict, name):
            raise UserError(
                f'head {name!r}: names consist of letters, digits, _ and -, '
                'and must not shadow attributes of nn.ModuleDict')
    runs = [_Run(name, *files) for name, files in heads.items()]
    base = max(runs, key=lambda run: len(run.state))
    for run in runs:
        _require_same_encoder(base, run)
    encoder, indices = _union(base, runs)
    with torch.no_grad():
        features = encoder(_example())
    outputs = {}
    for run in runs:
        ids = [indices.index(i) for i in run.indices]
        _require_same_features(base, run, [features[i] for i in ids])
        outputs[run.name] = ids
    return Heads(encoder, {run.name: run.head for run in runs}, outputs,
                 {run.name: run.cfg for run in runs}).to(torch.device(device))


class _Run:
    """A trained model, taken apart into encoder and head."""

    def __init__(self, name: str, config: str | Config,
                 checkpoint: str) -> None:
        cfg = copy.deepcopy(open_config(config))
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
        self.encoder = Encoder(
            model.backbone, self.head.normalization,
            settings=backbone_settings(cfg), weights=checkpoint)
        self.state = model.backbone.state_dict()
        with torch.no_grad():
            self.features = self.encoder(_example())
        indices = getattr(model.backbone, 'out_indices', None)
        if not isinstance(indices, list | tuple) or (
                len(indices) != len(self.features)):
            indices = range(len(self.features))
        self.indices = tuple(indices)
        model.backbone = nn.Identity()

    def __str__(self) -> str:
        return f"'{self.name}' ({self.head.weights})"


def _is_head(model: nn.Module) -> bool:
    if isinstance(model, ImageClassifier):
        return True
    try:
        from mmdet.models import BaseDetector
    except ImportError:
        return False
    return isinstance(model, BaseDetector)


def _example() -> Tensor:
    """Two images of noise, (2, 3, 96, 128)."""
    return torch.randn(2, 3, 96, 128,
                       generator=torch.Generator().manual_seed(0))


def _require_same_encoder(base: _Run, run: _Run) -> None:
    """Raise UserError unless the encoder of ``base`` contains the other."""
    ours, theirs = base.encoder.normalization, run.encoder.normalization
    if ours != theirs:
        raise UserError(
            f'heads {base} and {run} normalize images differently ({ours} '
            f'and {theirs}): train them with the same '
            'model.data_preprocessor')
    kinds = [type(each.encoder.backbone).__name__ for each in (base, run)]
    other = [name for name, tensor in run.state.items()
             if name not in base.state
             or not torch.equal(tensor, base.state[name])]
    if kinds[0] != kinds[1] or other:
        raise UserError(
            f'heads {base} and {run} have different encoders, '
            f'{" and ".join(kinds)}, whose tensors differ ({few(other)}): one '
            'has another architecture or was fine-tuned; train both on the '
            'same frozen encoder (model.backbone.frozen_stages)')


def _union(base: _Run, runs: Sequence[_Run]) -> tuple[Encoder, list[int]]:
    """The encoder of ``base`` with the outputs of all, and their indices."""
    indices = sorted(set().union(*(run.indices for run in runs)))
    own = base.encoder
    if indices == list(base.indices):
        return own, indices
    with DefaultScope.overwrite_default_scope('mmengine'):
        backbone = MODELS.build({**own.settings, 'out_indices': indices})
    backbone.load_state_dict(base.state)
    backbone.requires_grad_(False)
    return Encoder(backbone, own.normalization, settings=own.settings,
                   weights=own.weights), indices


def _require_same_features(base: _Run, run: _Run,
                           features: Sequence[Tensor]) -> None:
    """Raise UserError if a head gets other features than it was trained on.

    Settings such as strides change no tensor of an encoder.
    """
    if any(relative_difference(*pair) > _TOLERANCE
           for pair in zip(features, run.features, strict=True)):
        ours, theirs = base.encoder.settings, run.encoder.settings
        other = [name for name in {**ours, **theirs}
                 if ours.get(name) != theirs.get(name)]
        raise UserError(
            f'heads {base} and {run} have encoders that compute different '
            'features from equal weights: compare model.backbone of their '
            f'configs ({", ".join(other)})')


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
