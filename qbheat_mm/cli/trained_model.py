# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A pre-training model from its config and its checkpoint."""
from collections.abc import Mapping

from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope

from ..analysis.matrices import linear_models
from ..engine.checkpoint import load_strict, read
from ..errors import UserError
from ..models.selfsup import QBHeat
from ..utils.settings import type_name


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
    if linear and not linear_models(model.predictor):
        raise UserError(
            f"config '{path}' has no matrices A and B: give one of "
            "model.predictor.prediction='linear'")
    return model


def load_pretraining(model: QBHeat, checkpoint: str) -> dict:
    """Load a checkpoint of pre-training strictly.

    Args:
        model (QBHeat): Changed in place.
        checkpoint (str): File or URL.

    Returns:
        dict: The checkpoint's ``meta``, such as ``epoch`` and ``iter``.

    Raises:
        UserError: If the checkpoint is damaged, of another model or of the
            encoder alone.
    """
    if checkpoint.endswith('.safetensors'):
        raise UserError(
            f"'{checkpoint}' holds an encoder alone, and this needs A, B and "
            'the decoder as well: give the checkpoint of pre-training, such '
            'as epoch_N.pth beside it')
    content = read(checkpoint)
    load_strict(model, content, checkpoint)
    meta = content.get('meta')
    return meta if isinstance(meta, Mapping) else {}
