# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A trained model from its configuration and its checkpoint."""
from collections.abc import Mapping
from dataclasses import dataclass

from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import nn

from ..analysis.matrices import linear_models
from ..analysis.pixels import PixelSpace
from ..engine.checkpoint import (
    load_strict,
    read,
    require_normalization,
    weights,
)
from ..engine.pretrained_encoder import PretrainedEncoder
from ..errors import UserError
from ..models.layers.normalize import Normalization
from ..models.selfsup import QBHeat
from ..utils.settings import type_name


@dataclass(frozen=True)
class TrainedEncoder:
    """An encoder in evaluation mode and its pixels.

    Attributes:
        backbone (nn.Module): The encoder.
        pixels (PixelSpace): Between pictures and its input.
    """
    backbone: nn.Module
    pixels: PixelSpace

    def to(self, device: str) -> None:
        """Move encoder and pixels to a device."""
        self.backbone.to(device)
        self.pixels.preprocessor.to(device)


def build_pretraining(cfg: Config, path: str) -> QBHeat:
    """Build the pre-training model of a configuration, without weights.

    Args:
        cfg (Config): The configuration.
        path (str): Its file, for messages.

    Raises:
        UserError: If it is not one of QB-Heat's pre-training.
    """
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    kind = type_name(cfg.get('model', {}))
    if kind == 'RandomMasking':
        raise UserError(
            f"configuration '{path}' hides patches all over the image "
            "(model.type='RandomMasking') and predicts nothing from one "
            'quarter: take tools/analysis/correlation.py or attention.py, '
            'which look at its encoder')
    if kind != QBHeat.__name__:
        raise UserError(
            f"configuration '{path}' has model.type={kind!r}, which has "
            'neither predictor nor decoder: give the configuration of the '
            "pre-training (model.type='QBHeat')")
    model = MODELS.build(cfg.model)
    return model.eval()


def require_matrices(model: QBHeat, path: str) -> None:
    """Raise UserError if the predictor has no matrices A and B.

    Args:
        model (QBHeat): Of :func:`build_pretraining`.
        path (str): The file of its configuration, for the message.
    """
    if not linear_models(model.predictor):
        raise UserError(
            f"configuration '{path}' is that of a control, whose predictor "
            'learns no matrices A and B: give a pre-training of '
            "model.predictor.prediction='linear'")


def load_pretraining(model: QBHeat, checkpoint: str) -> dict:
    """Fill a pre-training model from its checkpoint, entirely or not at all.

    Args:
        model (QBHeat): Filled in place.
        checkpoint (str): File or URL.

    Returns:
        dict: ``epoch`` and ``iter`` of the checkpoint, as far as it knows.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If the checkpoint lacks predictor and decoder, is of
            another model, refused or damaged, or holds values that are not
            finite.
    """
    content = read(checkpoint)
    _require_parts(model.state_dict(), weights(content), checkpoint)
    load_strict(model, content, checkpoint)
    meta = content.get('meta')
    meta = meta if isinstance(meta, Mapping) else {}
    return {key: meta[key] for key in ('epoch', 'iter') if key in meta}


def load_encoder(cfg: Config, path: str, checkpoint: str) -> TrainedEncoder:
    """Build ``model.backbone`` of any configuration and load its weights.

    Args:
        cfg (Config): Of pre-training, probing, classification or detection.
        path (str): Its file, for messages.
        checkpoint (str): Any checkpoint that holds the encoder.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If there is no backbone, or the checkpoint does not fit.
    """
    model = cfg.get('model', {})
    if 'backbone' not in model:
        raise UserError(f"configuration '{path}' has no model.backbone")
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    backbone = MODELS.build(model.backbone)
    PretrainedEncoder(checkpoint)(backbone)
    # mmpretrain's classifiers have their preprocessor outside the model.
    settings = dict(
        model.get('data_preprocessor') or cfg.get('data_preprocessor') or {})
    settings.setdefault('type', 'SelfSupDataPreprocessor' if 'predictor' in
                        model else 'ClsDataPreprocessor')
    preprocessor = MMPRETRAIN_MODELS.build(settings)
    require_normalization(backbone.pretrained_normalization,
                          Normalization.of(preprocessor), checkpoint)
    pixels = PixelSpace(preprocessor)
    backbone.eval()  # which of some backbones returns nothing
    return TrainedEncoder(backbone, pixels)


def _require_parts(needed: Mapping, found: Mapping, checkpoint: str) -> None:
    """Say why a checkpoint of the encoder alone is not enough."""
    absent = [
        f'{part} ({name}.*)'
        for name, part in (('predictor', 'predictor'), ('neck', 'decoder'))
        if not any(key.startswith(f'{name}.') and key in needed
                   for key in found)
    ]
    if absent:
        raise UserError(
            f"checkpoint '{checkpoint}' holds no {' and no '.join(absent)}: "
            'the matrices and the predictions are theirs, and probing, '
            'fine-tuning and export keep the encoder alone; give a '
            'checkpoint of the pre-training run itself')
