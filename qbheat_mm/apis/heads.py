# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load several heads that were trained on one frozen encoder."""
import copy
import re
from collections.abc import Mapping, Sequence

import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from mmpretrain.models import ImageClassifier
from torch import Tensor, nn

from ..errors import UserError
from ..evaluation.encoder import Encoder
from ..evaluation.heads import Heads, SharedFeatures
from ..export.model import load_model
from ..export.programs import relative_difference
from ..utils.settings import backbone_settings
from .encoder import open_config

#: Largest accepted difference of features, relative to the largest.
_TOLERANCE = 1e-5


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
            raise UserError(f'head {name!r}: a name has letters, digits, _ '
                            "and -, and is no method of torch's ModuleDict")
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
                 outputs, {run.name: (run.cfg, run.checkpoint) for run in runs}
                 ).to(torch.device(device))


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
        if model.normalization is None:
            raise UserError(
                f"head '{name}': {type(model.data_preprocessor).__name__} "
                'does not say how images are normalized')
        self.name, self.checkpoint, self.cfg = name, checkpoint, cfg
        self.encoder = Encoder(
            model.backbone, model.normalization,
            settings=backbone_settings(cfg), weights=checkpoint)
        self.state = model.backbone.state_dict()
        with torch.no_grad():
            self.features = self.encoder(_example())
        indices = getattr(model.backbone, 'out_indices', None)
        if not isinstance(indices, list | tuple) or (
                len(indices) != len(self.features)):
            indices = range(len(self.features))
        self.indices = tuple(indices)
        model.backbone = SharedFeatures()
        self.head = model

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


def _example() -> Tensor:
    """Two images of noise, (2, 3, 96, 128)."""
    return torch.randn(2, 3, 96, 128,
                       generator=torch.Generator().manual_seed(0))


def _require_same_input(base: _Run, run: _Run) -> None:
    ours, theirs = base.encoder.normalization, run.encoder.normalization
    if ours != theirs:
        raise UserError(
            f'heads {base} and {run} normalize images differently ({ours} '
            f'and {theirs}): train them with the same '
            'model.data_preprocessor')


def _require_same_weights(base: _Run, run: _Run) -> None:
    """Raise UserError unless the encoder of ``base`` contains the other."""
    kinds = [type(each.encoder.backbone).__name__ for each in (base, run)]
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


def _require_same_features(encoder: Encoder, base: _Run, run: _Run,
                           ids: Sequence[int]) -> None:
    """Raise UserError if a head gets other features than it was trained on.

    Settings such as strides change no tensor of an encoder.
    """
    with torch.no_grad():
        found = encoder(_example())
    for i, expected in zip(ids, run.features, strict=True):
        if relative_difference(found[i], expected) > _TOLERANCE:
            ours, theirs = base.encoder.settings, run.encoder.settings
            other = [name for name in {**ours, **theirs}
                     if ours.get(name) != theirs.get(name)]
            raise UserError(
                f'heads {base} and {run} have encoders that compute '
                'different features from equal weights: compare '
                f'model.backbone of their configs ({", ".join(other)})')
