# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load an encoder from its checkpoint alone."""
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..engine.checkpoint import (
    backbone_of,
    find_settings,
    normalization_in,
    read,
    require_normalization,
    stored_config,
)
from ..engine.pretrained_encoder import PretrainedEncoder
from ..errors import UserError
from ..evaluation.encoder import Encoder
from ..model_index import find_config
from ..models.backbones import MobileFormer
from ..models.layers.normalize import Normalization
from ..utils.settings import backbone_settings, training_size, type_name

# A registry imports names that it does not know: only classes of the
# toolboxes are built from the config stored in a checkpoint.
_CLASS = re.compile(r'((mmengine|mmcv|mmpretrain|mmdet)\.)?[A-Z]\w*')


def load_encoder(checkpoint: str,
                 config: str | Config | None = None,
                 out_indices: Sequence[int] | None = None,
                 device: str = 'cpu') -> Encoder:
    """Build an encoder from its checkpoint and load all of its weights.

    The config stored in the checkpoint is parsed, never executed.

    Args:
        checkpoint (str): File or URL of pre-training, probing, fine-tuning
            or detection, or an exported ``encoder.safetensors``.
        config (str | Config, optional): Config file, or the name of one of
            ours, for files of weights alone. Config files are executed.
            Defaults to None.
        out_indices (Sequence[int], optional): Outputs of the backbone.
            Defaults to the last features and the tokens of a
            ``MobileFormer``, and to the stored setting of others.
        device (str): Defaults to 'cpu'.

    Returns:
        Encoder: In evaluation mode.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If the checkpoint does not describe its encoder or does
            not fit.

    Examples:
        >>> encoder = load_encoder('encoder.safetensors')
        >>> image = torch.zeros(1, 3, 224, 224, dtype=torch.uint8)
        >>> features, tokens = encoder(encoder.normalize(image))
    """
    content = read(checkpoint)
    stored = stored_config(content)
    settings = stored if config is None else _read_config(config)
    source = f"checkpoint '{checkpoint}'" if config is None else (
        f"config '{getattr(config, 'filename', config)}'")
    if config is None:
        _require_classes(next(find_settings(stored, 'backbone'), {}), source)
    normalization, given = _describe(settings, source)
    backbone = _build(given, out_indices, source)
    PretrainedEncoder(str(checkpoint)).load(backbone, content)
    require_normalization(backbone.pretrained_normalization, normalization,
                          str(checkpoint))
    # The stored config knows of --cfg-options.
    size = _size(stored) or _size(settings)
    return Encoder(backbone, normalization, backbone_of(settings), size,
                   given, str(checkpoint)).to(torch.device(device))


def build_encoder(config: str | Config,
                  source: str = 'the config',
                  out_indices: Sequence[int] | None = None) -> Encoder:
    """Build the encoder of a config with the weights of its ``init_cfg``.

    Args:
        config (str | Config): Config file, name of ours, or config.
        source (str): Its name in messages.
        out_indices (Sequence[int], optional): See :func:`load_encoder`.

    Returns:
        Encoder: In evaluation mode, with random weights if ``init_cfg`` is
        None.

    Raises:
        UserError: If the config has no encoder, or its weights do not fit.
    """
    settings = _read_config(config)
    normalization, given = _describe(settings, source)
    init_cfg = next(find_settings(settings, 'backbone')).get('init_cfg')
    backbone = _build(given, out_indices, source, init_cfg=init_cfg)
    backbone.init_weights()
    weights = getattr(backbone, 'pretrained_from', '')
    require_normalization(
        getattr(backbone, 'pretrained_normalization', None), normalization,
        weights)
    return Encoder(backbone, normalization, backbone_of(settings),
                   _size(settings), given, weights)


def _read_config(config: str | os.PathLike | Config) -> dict:
    if not isinstance(config, Config):
        config = os.fspath(config)
        config = Config.fromfile(find_config(config) or config)
    return config.to_dict()


def _describe(settings: Mapping, source: str) -> tuple[Normalization, dict]:
    """Input normalization and settings of the encoder of a config."""
    given = next(find_settings(settings, 'backbone'), None)
    normalization = normalization_in(settings)
    if given is None or normalization is None:
        missing = ('model.backbone' if given is None else
                   'mean, std and channel order of the images')
        raise UserError(f'{source} does not contain {missing}: give its '
                        'config as well, as config=FILE')
    scope = settings.get('default_scope')
    return normalization, backbone_settings(
        dict(default_scope=scope, model=dict(backbone=given)))


def _require_classes(settings: Any, source: str) -> None:
    """Raise unless all types are classes of the toolboxes."""
    if isinstance(settings, Mapping):
        kind = settings.get('type')
        if 'type' in settings and not (
                isinstance(kind, str) and _CLASS.fullmatch(kind)):
            raise UserError(f'{source} names type={kind!r}, which is not '
                            'built; give its config, as config=FILE')
        settings = list(settings.values())
    if isinstance(settings, list | tuple):
        for value in settings:
            _require_classes(value, source)


def _size(settings: Mapping) -> tuple[int, int] | None:
    """Height and width of the training images, if the config says so."""
    try:
        size = training_size(settings)
    except (AttributeError, TypeError):  # a file may say anything
        return None
    return size if size and len(size) == 2 and all(
        isinstance(side, int) and side > 0 for side in size) else None


def _build(given: Mapping, out_indices: Sequence[int] | None, source: str,
           **options: Any) -> nn.Module:
    """Build a backbone.

    Raises:
        UserError: If it is not registered, or its settings are wrong.
    """
    given = {**given, **options}
    if type_name(given) == MobileFormer.__name__ and out_indices is None:
        out_indices = (-2, -1)
    if out_indices is not None:
        given['out_indices'] = tuple(out_indices)
    try:
        with DefaultScope.overwrite_default_scope('mmengine'):
            return MODELS.build(given)
    # Constructors raise errors of any type.
    except Exception as error:
        hint = ('; import the module that registers it, or give a config '
                'with custom_imports, as config=FILE'
                if 'is not in the' in str(error) else '')
        raise UserError(f'{source}: cannot build {type_name(given)}: '
                        f'{str(error).splitlines()[0]}{hint}') from error
