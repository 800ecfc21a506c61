# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load an encoder from its checkpoint alone."""
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope

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
from ..utils.settings import (
    backbone_settings,
    open_file,
    training_size,
    type_name,
)

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
    if config is None:
        settings, source = stored, f"checkpoint '{checkpoint}'"
        _require_classes(next(find_settings(stored, 'backbone'), {}), source)
    else:
        settings = open_config(config).to_dict()
        source = f"config '{getattr(config, 'filename', config)}'"
    encoder = _build(settings, source, out_indices)
    backbone = encoder.backbone
    PretrainedEncoder(str(checkpoint)).load(backbone, content)
    require_normalization(backbone.pretrained_normalization,
                          encoder.normalization, str(checkpoint))
    encoder.weights = str(checkpoint)
    # The stored config includes --cfg-options.
    encoder.size = _training_size(stored) or encoder.size
    return encoder.to(torch.device(device))


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
    settings = open_config(config).to_dict()
    given = next(find_settings(settings, 'backbone'), {})
    encoder = _build(settings, source, out_indices,
                     init_cfg=given.get('init_cfg'))
    backbone = encoder.backbone
    backbone.init_weights()
    encoder.weights = getattr(backbone, 'pretrained_from', '')
    require_normalization(getattr(backbone, 'pretrained_normalization', None),
                          encoder.normalization, encoder.weights)
    return encoder


def open_config(config: str | os.PathLike | Config) -> Config:
    """Read a config file, or one of ours by its name."""
    if isinstance(config, Config):
        return config
    config = os.fspath(config)
    return open_file(find_config(config) or config)


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


def _build(settings: Mapping, source: str,
           out_indices: Sequence[int] | None, **options: Any) -> Encoder:
    """Build the encoder of a config, without weights.

    Raises:
        UserError: If the config does not describe it, or it cannot be built.
    """
    given = next(find_settings(settings, 'backbone'), None)
    normalization = normalization_in(settings)
    if given is None or normalization is None:
        missing = ('model.backbone' if given is None else
                   'mean, std and channel order of the images')
        raise UserError(f'{source} does not contain {missing}: give its '
                        'config as well, as config=FILE')
    given = backbone_settings(dict(
        default_scope=settings.get('default_scope'),
        model=dict(backbone=given)))
    kind = type_name(given)
    if kind == MobileFormer.__name__ and out_indices is None:
        out_indices = (-2, -1)
    outputs = {} if out_indices is None else dict(
        out_indices=tuple(out_indices))
    try:
        with DefaultScope.overwrite_default_scope('mmengine'):
            backbone = MODELS.build({**given, **outputs, **options})
    # Constructors raise errors of any type.
    except Exception as error:
        raise UserError(f'{source}: cannot build {kind}: '
                        f'{" ".join(str(error).split())}') from error
    return Encoder(backbone, normalization, backbone_of(settings),
                   _training_size(settings), given)


def _training_size(settings: Mapping) -> tuple[int, int] | None:
    """Height and width of the training images, if the config says so."""
    try:
        size = training_size(settings)
    except (AttributeError, TypeError):  # a file may contain anything
        return None
    return size if size and len(size) == 2 and all(
        isinstance(side, int) and side > 0 for side in size) else None
