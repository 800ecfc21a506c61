# Copyright (c) QB-Heat MM authors. All rights reserved.
"""An encoder from nothing but its checkpoint."""
from collections.abc import Mapping, Sequence
from typing import Any

from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..compat import load_checkpoint
from ..config_text import find_obstacle
from ..engine import PretrainedEncoder
from ..engine.origin import (
    Pixels,
    find_settings,
    name_backbone,
    pixels_in,
    require_pixels,
    settings_of,
)
from ..errors import UserError
from ..evaluation.encoder import Encoder
from ..launching.settings import parse_config
from ..launching.trained_model import training_size
from ..model_index import find_config
from ..models.backbones import MobileFormer

_TRAINING_ONLY = ('init_cfg', 'frozen_stages', 'norm_eval')


def load_encoder(checkpoint: str,
                 config: str | Config | None = None,
                 out_indices: Sequence[int] | None = None,
                 device: str = 'cpu') -> Encoder:
    """Build an encoder as its checkpoint says, and fill it entirely.

    The configuration inside a checkpoint is text; it is parsed and never
    run. Checkpoints of pre-training, probing, fine-tuning and detection all
    hold it.

    Args:
        checkpoint (str): File or URL.
        config (str | Config, optional): A configuration (a file, or a name
            of ours, as ``mmpretrain.list_models`` gives them) for files that
            hold weights alone. Configuration files are run: give it only
            where you trust its author. Defaults to None.
        out_indices (Sequence[int], optional): Outputs of the backbone, see
            there. By default the last features and the tokens of a
            ``MobileFormer``, and of others what the checkpoint says.
        device (str): Defaults to 'cpu'.

    Returns:
        Encoder: In evaluation mode.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If the checkpoint does not say what encoder it holds or
            does not fit, or is refused or damaged.

    Examples:
        >>> encoder = load_encoder('epoch_100.pth')
        >>> image = torch.zeros(1, 3, 224, 224, dtype=torch.uint8)
        >>> features, tokens = encoder(encoder.normalize(image))
    """
    content = load_checkpoint(str(checkpoint), map_location='cpu')
    settings = settings_of(content) if config is None else _read(config)
    source = (f"checkpoint '{checkpoint}'" if config is None else
              f'configuration {config!r}' if isinstance(config, str) else
              'the configuration')
    given, pixels = _require_known(settings, source)
    if config is None:
        _require_plain(given, checkpoint)
    backbone = _build(given, settings, out_indices, source)
    PretrainedEncoder(str(checkpoint))(backbone)
    require_pixels(backbone.pretrained_pixels, pixels, str(checkpoint),
                   'give the configuration that it was trained with')
    return Encoder(backbone, pixels, name_backbone(given),
                   _size_in(settings)).to(device)


def build_encoder(config: str | Config,
                  source: str = 'the configuration',
                  out_indices: Sequence[int] | None = None) -> Encoder:
    """Build the encoder of a configuration, with the weights of its own.

    These are those of ``model.backbone.init_cfg``: a checkpoint's, or random
    ones to compare with.

    Args:
        config (str | Config): File, name of ours, or what was read.
        source (str): What to call it in messages.
        out_indices (Sequence[int], optional): See :func:`load_encoder`.

    Returns:
        Encoder: In evaluation mode.

    Raises:
        UserError: If there is no encoder, or its weights are not there.
    """
    settings = _read(config)
    given, pixels = _require_known(settings, source)
    backbone = _build(given, settings, out_indices, source,
                      init_cfg=given.get('init_cfg'))
    backbone.init_weights()
    return Encoder(backbone, pixels, name_backbone(given), _size_in(settings))


def _require_known(settings: Mapping, source: str) -> tuple[Mapping, Pixels]:
    """The encoder's settings and its pixels.

    Raises:
        UserError: If one of them is not there.
    """
    given = next(find_settings(settings, 'backbone'), None)
    pixels = pixels_in(settings)
    if given is None or pixels is None:
        lacks = ('which encoder it holds' if given is None else
                 'with which mean, std and channel order it was trained')
        raise UserError(
            f'{source} does not say {lacks}: give the configuration as well, '
            'as config=FILE, or a name of '
            "mmpretrain.list_models('*mf-*')")
    return given, pixels


def _read(config: str | Config) -> dict:
    """A configuration by its file or by its name among ours."""
    if isinstance(config, str):
        config = parse_config(find_config(config) or config)
    return config.to_dict()


def _size_in(settings: Mapping) -> tuple[int, int] | None:
    """Height and width of the training images, if the settings say so."""
    try:
        size = training_size(settings)
    except (AttributeError, TypeError):  # a file may say anything
        return None
    return size if size and len(size) == 2 and all(
        isinstance(side, int) and side > 0 for side in size) else None


def _require_plain(settings: Mapping, checkpoint: str) -> None:
    """Refuse settings whose types are no parts of the toolboxes.

    Raises:
        UserError: Naming the first of them.
    """
    obstacle = find_obstacle(f'backbone = {dict(settings)!r}')
    if obstacle is not None or not isinstance(settings.get('type'), str):
        raise UserError(
            f"the encoder that checkpoint '{checkpoint}' names is not built: "
            f'{obstacle or "it has no type"}; give the configuration file, '
            'as config=FILE')


def _build(given: Mapping, settings: Mapping,
           out_indices: Sequence[int] | None, source: str,
           **options: Any) -> nn.Module:
    """Build a backbone without weights, for evaluation.

    Raises:
        UserError: If it cannot be built.
    """
    given = {key: value for key, value in given.items()
             if key not in _TRAINING_ONLY}
    given.update(options)
    kind = MODELS.module_dict.get(given['type'])
    if kind is MobileFormer and out_indices is None:
        out_indices = (-2, -1)
    if out_indices is not None:
        given['out_indices'] = tuple(out_indices)
    scope = settings.get('default_scope') or 'mmpretrain'
    scope = 'mmengine' if kind is not None else scope
    try:
        with DefaultScope.overwrite_default_scope(scope):
            return MODELS.build(given)
    except UserError:
        raise
    # Parts raise what they like, for settings of which they know nothing.
    except Exception as error:
        raise UserError(
            f'{source}: its encoder {name_backbone(given)} cannot be '
            f'built: {_first_line(error)}') from error


def _first_line(error: Any) -> str:
    return f'{type(error).__name__}: {error}'.split('\n')[0][:200]
