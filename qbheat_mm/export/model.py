# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load classifiers and detectors, and describe where weights come from."""
import copy
import hashlib
import json
import os
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..engine.check_folders import set_classes
from ..engine.checkpoint import classes_in, load_strict, read
from ..errors import UserError
from ..models.layers.normalize import Normalization
from ..utils.settings import toolbox
from ..version import __version__


def load_model(cfg: Config, checkpoint: str) -> nn.Module:
    """Build a classifier or detector and load its checkpoint strictly.

    Args:
        cfg (Config): Of the run.
        checkpoint (str): Of that run, file or URL.

    Returns:
        nn.Module: In evaluation mode, with the attributes ``weights`` and
        ``normalization``, as an :class:`Encoder`, and ``classes``.

    Raises:
        UserError: If the checkpoint is missing, damaged or does not fit.
    """
    content = read(checkpoint)
    classes = classes_in(content)
    cfg = copy.deepcopy(cfg)
    if cfg.get('count_classes') and classes:  # the run counted its folders
        set_classes(cfg, len(classes))
    settings = cfg.model.to_dict()
    if cfg.get('data_preprocessor'):  # as mmengine's runner does
        settings.setdefault('data_preprocessor', cfg.data_preprocessor)
    if 'train_cfg' in settings:  # required by two-stage detectors
        settings['train_cfg'] = None
    with DefaultScope.overwrite_default_scope(toolbox(cfg) or 'mmpretrain'):
        model = MODELS.build(ConfigDict(settings))
    load_strict(model, content, checkpoint)
    model.eval()
    model.weights, model.classes = checkpoint, classes
    model.normalization = Normalization.of(
        getattr(model, 'data_preprocessor', None))
    return model


def describe(model: nn.Module) -> dict[str, str]:
    """Describe a model's weights and input, as every exported file does."""
    path = Path(model.weights).expanduser()
    facts = dict(
        qbheat_mm=__version__, source=path.name,
        source_sha256=hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file() else '')
    if model.normalization is not None:
        facts.update(
            mean=json.dumps(model.normalization.mean),
            std=json.dumps(model.normalization.std),
            channel_order='RGB' if model.normalization.rgb else 'BGR')
    return facts


def require_other(model: nn.Module, out: str) -> None:
    """Raise UserError if ``out`` is the checkpoint of the model."""
    if os.path.exists(out) and os.path.exists(model.weights) and (
            os.path.samefile(out, model.weights)):
        raise UserError(f"'{out}' is the checkpoint itself and would be "
                        'lost: give another file')
