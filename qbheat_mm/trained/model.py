# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Classifiers, detectors and pre-training models with their weights."""
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

from mmengine.config import Config, ConfigDict
from mmengine.registry import MODELS, DefaultScope, init_default_scope
from torch import nn

from ..errors import UserError
from ..models.selfsup import QBHeat
from ..models.selfsup.qbheat_predictor import LinearExtrapolation
from ..utils.settings import (
    prediction_transforms,
    set_classes,
    toolbox,
    type_name,
)
from .checkpoint import Checkpoint
from .normalization import Normalization


@dataclass(frozen=True)
class TrainedModel:
    """A classifier or detector in evaluation mode, with its weights.

    Attributes:
        model (nn.Module): The model.
        checkpoint (str): File or URL of its weights.
        classes (tuple[str, ...]): Names of its classes; empty if unknown.
        normalization (Normalization, optional): Normalization of its input,
            if known.
        score_threshold (float, optional): Score of the best F1 of a detector
            in its last validation, if known.
        transforms (list[dict]): Settings of the transforms that prepare
            images, such as Resize, without loading and packing.
    """
    model: nn.Module
    checkpoint: str
    classes: tuple[str, ...]
    normalization: Normalization | None
    score_threshold: float | None = None
    transforms: list[dict] = field(default_factory=list)


def load_model(cfg: Config, checkpoint: str) -> TrainedModel:
    """Build a classifier or detector and load its checkpoint strictly.

    Args:
        cfg (Config): Config of the run.
        checkpoint (str): Checkpoint of that run, file or URL.

    Raises:
        UserError: If the checkpoint is missing, damaged or does not fit.
    """
    trained = Checkpoint.read(checkpoint)
    cfg = copy.deepcopy(cfg)
    if cfg.get('count_classes') and trained.classes:
        set_classes(cfg, len(trained.classes))
    settings = cfg.model.to_dict()
    if cfg.get('data_preprocessor'):  # as mmengine's runner does
        settings.setdefault('data_preprocessor', cfg.data_preprocessor)
    if 'train_cfg' in settings:  # required by two-stage detectors
        settings['train_cfg'] = None
    with DefaultScope.overwrite_default_scope(toolbox(cfg) or 'mmpretrain'):
        model = MODELS.build(ConfigDict(settings))
    trained.load_model(model)
    trained.warn_of_other_settings(cfg)
    model.eval()
    return TrainedModel(model, trained.path, trained.classes,
                        Normalization.of(model), trained.score_threshold,
                        list(map(dict, prediction_transforms(cfg))))


def build_pretraining(cfg: Config, path: str, linear: bool = False) -> QBHeat:
    """Build the model of a pre-training config, without weights.

    Args:
        cfg (Config): The config.
        path (str): Its file, for messages.
        linear (bool): Require matrices A and B. Defaults to False.

    Raises:
        UserError: If its model is not :class:`QBHeat`, or has no matrices.
    """
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    kind = type_name(cfg.get('model', {}))
    if kind != QBHeat.__name__:
        raise UserError(
            f"config '{path}' has model.type={kind!r}: give one of "
            "model.type='QBHeat', or look at the encoder alone with "
            'tools/analysis/correlation.py or attention.py')
    model = MODELS.build(cfg.model).eval()
    if linear and not any(isinstance(part, LinearExtrapolation)
                          for part in model.predictor.modules()):
        raise UserError(
            f"config '{path}' has no matrices A and B: give one of "
            "model.predictor.prediction='linear'")
    return model


def load_pretraining(model: QBHeat, checkpoint: str) -> Mapping:
    """Load a checkpoint of pre-training strictly.

    Args:
        model (QBHeat): Changed in place.
        checkpoint (str): File or URL.

    Returns:
        Mapping: The checkpoint's ``meta``, such as ``epoch`` and ``iter``.

    Raises:
        UserError: If the checkpoint is damaged, of another model or of the
            encoder alone.
    """
    if checkpoint.endswith('.safetensors'):
        raise UserError(
            f"'{checkpoint}' holds an encoder alone, and this needs A, B and "
            'the decoder as well: give the checkpoint of pre-training, such '
            'as epoch_N.pth')
    trained = Checkpoint.read(checkpoint)
    trained.load_model(model)
    return trained.meta
