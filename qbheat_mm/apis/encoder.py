# Copyright (c) QB-Heat MM authors. All rights reserved.
"""An encoder from nothing but its checkpoint."""
import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmengine.config import Config
from mmengine.config.utils import MODULE2PACKAGE
from mmengine.logging import MMLogger
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..arguments import INT, PATH, several, shown
from ..cli.settings import parse_config
from ..compat import load_checkpoint
from ..config_text import find_obstacle
from ..engine.origin import (
    Pixels,
    find_settings,
    name_backbone,
    pixels_in,
    require_pixels,
    settings_of,
)
from ..engine.pretrained_encoder import PretrainedEncoder
from ..errors import UserError
from ..evaluation.encoder import Encoder
from ..model_index import find_config
from ..models.backbones import MobileFormer
from ..utils.devices import require_device
from ..utils.settings import toolbox, type_name
from ..utils.training_size import training_size

_WAY_OUT = 'the configuration that it was trained with, as config=FILE'
# How a backbone is trained and where its weights come from, not what it is.
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
            does not fit, or is refused or damaged; if there is no such
            device.

    Examples:
        >>> encoder = load_encoder('epoch_100.pth')
        >>> image = torch.zeros(1, 3, 224, 224, dtype=torch.uint8)
        >>> features, tokens = encoder(encoder.normalize(image))
    """
    PATH.check('checkpoint', checkpoint)
    require_device(device)
    content = load_checkpoint(str(checkpoint), map_location='cpu')
    trained = settings_of(content)
    settings = trained if config is None else _read(config)
    source = (f"checkpoint '{checkpoint}'" if config is None else
              f'configuration {config!r}' if isinstance(config, str) else
              'the configuration')
    given, pixels = _require_known(settings, source)
    if config is None:
        _require_plain(given, checkpoint)
    given = _settings_alone(given, settings)
    backbone = _build(given, out_indices, source)
    PretrainedEncoder(str(checkpoint)).fill(backbone, content, _WAY_OUT)
    require_pixels(backbone.pretrained_pixels, pixels, str(checkpoint),
                   f'give {_WAY_OUT}')
    # A file may have been trained at another size, by --cfg-options.
    size = _size_in(trained) or _size_in(settings)
    return Encoder(backbone, pixels, name_backbone(given), size, given,
                   str(checkpoint)).to(device)


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
        UserError: If there is no encoder, its weights are not there, or
            were trained with other pixels than the configuration gives.
    """
    settings = _read(config)
    given, pixels = _require_known(settings, source)
    init_cfg = given.get('init_cfg')
    given = _settings_alone(given, settings)
    backbone = _build(given, out_indices, source, init_cfg=init_cfg)
    with _without_report_of_each_tensor():
        backbone.init_weights()
    weights = _checkpoint_in(init_cfg)
    require_pixels(getattr(backbone, 'pretrained_pixels', None), pixels,
                   weights,
                   'set model.backbone.init_cfg.allow_other_pixels=True')
    return Encoder(backbone, pixels, name_backbone(given),
                   _size_in(settings), given, weights)


@contextlib.contextmanager
def _without_report_of_each_tensor() -> Iterator[None]:
    """Keep back the lines in which mmengine says how each tensor began."""
    logger = MMLogger.get_current_instance()

    def of_no_tensor(record: logging.LogRecord) -> bool:
        return ' - torch.Size(' not in record.getMessage()

    logger.addFilter(of_no_tensor)
    try:
        yield
    finally:
        logger.removeFilter(of_no_tensor)


def _checkpoint_in(init_cfg: Any) -> str:
    """The file that an ``init_cfg`` of mmengine, or a list of them, names."""
    parts = init_cfg if isinstance(init_cfg, list) else [init_cfg]
    return next((str(part['checkpoint']) for part in parts
                 if isinstance(part, Mapping) and part.get('checkpoint')), '')


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


def _read(config: str | os.PathLike | Config) -> dict:
    """A configuration by its file or by its name among ours.

    Raises:
        UserError: If it is none, or cannot be read.
    """
    if isinstance(config, str | os.PathLike):
        config = os.fspath(config)
        config = parse_config(find_config(config) or config)
    if not isinstance(config, Config):
        raise UserError(f'config={shown(config)} must be a file, the name of '
                        'a configuration of ours, or a Config of mmengine')
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


def _settings_alone(given: Mapping, settings: Mapping) -> dict:
    """What a backbone is built from, with the toolbox that its name is of.

    Args:
        given (Mapping): ``model.backbone``.
        settings (Mapping): All of the configuration.
    """
    alone = {key: value for key, value in given.items()
             if key not in (*_TRAINING_ONLY, '_scope_')}
    kind = alone.get('type')
    # Of the root registry, as ours, or a class.
    if not isinstance(kind, str) or kind in MODELS.module_dict:
        return alone
    scope = kind.split('.')[0]
    if scope not in MODULE2PACKAGE:
        scope = given.get('_scope_') or toolbox(settings) or 'mmpretrain'
    return {**alone, '_scope_': scope}


def _build(given: Mapping, out_indices: Sequence[int] | None, source: str,
           **options: Any) -> nn.Module:
    """Build a backbone for evaluation, by default without weights.

    Raises:
        UserError: If it cannot be built.
    """
    given = {**given, **options}
    if type_name(given) == MobileFormer.__name__ and out_indices is None:
        out_indices = (-2, -1)
    if out_indices is not None:
        several(INT).check('out_indices', out_indices)
        given['out_indices'] = tuple(out_indices)
    try:
        with DefaultScope.overwrite_default_scope('mmengine'):
            return MODELS.build(given)
    except UserError:
        raise
    # Parts raise what they like, for settings of which they know nothing.
    except Exception as error:
        if _is_of_no_registry(error):
            raise UserError(
                f'{source}: its encoder {name_backbone(given)} is not known '
                'here: import the module that registers it, or give a '
                'configuration whose custom_imports name that module, as '
                'config=FILE (--config FILE of a tool)') from error
        raise UserError(
            f'{source}: its encoder {name_backbone(given)} cannot be '
            f'built: {_first_line(error)}') from error


def _is_of_no_registry(error: Exception) -> bool:
    return isinstance(error, KeyError) and 'is not in the' in str(error)


def _first_line(error: Any) -> str:
    return f'{type(error).__name__}: {error}'.split('\n')[0][:200]
