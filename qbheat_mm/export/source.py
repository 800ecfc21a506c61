# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What is exported: a trained network, and what is known about it."""
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mmengine.config import Config, ConfigDict
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..compat import load_checkpoint
from ..config_text import find_obstacle, read_settings
from ..engine import PretrainedEncoder
from ..engine.matching import compare
from ..engine.origin import (
    Pixels,
    describe_backbone,
    pixels_of,
    require_pixels,
    trained_pixels,
)
from ..engine.weights import named_weights, require_possible
from ..errors import UserError
from ..launching.toolbox import toolbox
from ..version import __version__

# How a backbone is trained and where its weights come from, not what it is.
_OF_TRAINING = ('init_cfg', 'frozen_stages', 'norm_eval', 'drop_path_rate',
                'with_cp', '_scope_')


@dataclass(frozen=True)
class Source:
    """A network with the weights of a checkpoint.

    Attributes:
        model (nn.Module): An encoder, a classifier or a detector, in
            evaluation mode.
        settings (dict): What it is built from.
        pixels (Pixels, optional): Of its input; None if unknown.
        checkpoint (str): The file that the weights come from.
        classes (tuple[str, ...]): Their names, if known. Defaults to ().
        digest (str): sha256 of the file; '' for an address.
    """
    model: nn.Module
    settings: dict
    pixels: Pixels | None
    checkpoint: str
    classes: tuple[str, ...] = field(default=())
    digest: str = ''

    def facts(self) -> dict[str, str]:
        """What every exported file says about itself, in texts."""
        return dict(
            qbheat_mm=__version__,
            source=os.path.basename(self.checkpoint),
            source_sha256=self.digest,
            **pixel_facts(self.pixels))


def pixel_facts(pixels: Pixels | None) -> dict[str, str]:
    """Mean and deviation (0 to 255, JSON) and channel order, in texts."""
    if pixels is None:
        return {}
    return dict(
        mean=json.dumps(pixels.mean),
        std=json.dumps(pixels.std),
        channel_order='RGB' if pixels.rgb else 'BGR')


def read_encoder(checkpoint: str,
                 cfg: Config | None = None,
                 **changes: Any) -> Source:
    """Build the encoder of a checkpoint and load all of its weights.

    Args:
        checkpoint (str): File or URL: pre-training, probing, classification,
            detection, or an encoder's safetensors.
        cfg (Config, optional): Its configuration. Defaults to None: the one
            inside the checkpoint, which is parsed and never run.
        changes (Any): Settings of the backbone that replace those, as
            ``out_indices``.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If the checkpoint does not say what it holds, does not
            fit, is refused or damaged.
    """
    content = load_checkpoint(checkpoint, map_location='cpu')
    settings = cfg if cfg is not None else _settings_inside(content)
    model = settings.get('model') or {}
    if not isinstance(model.get('backbone'), Mapping):
        raise UserError(
            f"checkpoint '{checkpoint}' does not say which encoder it holds: "
            'give its configuration as well' if cfg is None else
            'the configuration has no model.backbone')
    backbone = {name: value
                for name, value in _plain(model['backbone']).items()
                if name not in _OF_TRAINING} | changes
    encoder = _build(backbone, settings, checkpoint)
    PretrainedEncoder(checkpoint)(encoder)
    pixels = _pixels(settings)
    require_pixels(encoder.pretrained_pixels, pixels, checkpoint,
                   'give the configuration that it was trained with')
    encoder.eval()  # which does not return a ResNet
    return Source(
        encoder, backbone, pixels or encoder.pretrained_pixels,
        checkpoint, digest=_digest(checkpoint))


def read_model(cfg: Config, checkpoint: str) -> Source:
    """Build the model of a configuration and fill all of it.

    Args:
        cfg (Config): Of classification or detection.
        checkpoint (str): Of that run, file or URL.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If the checkpoint does not fit, is refused or damaged.
    """
    content = load_checkpoint(checkpoint, map_location='cpu')
    settings = _plain(cfg.model)
    if cfg.get('data_preprocessor'):  # as mmengine's runner does
        settings.setdefault('data_preprocessor', _plain(cfg.data_preprocessor))
    settings.pop('train_cfg', None)  # nothing is trained
    with DefaultScope.overwrite_default_scope(_scope(cfg)):
        model = MODELS.build(ConfigDict(settings))
    found = named_weights(content)
    needed = model.state_dict()
    found = {name: found[name] for name in needed if name in found}
    mismatch = compare(needed, found)
    if mismatch:
        origin = describe_backbone(content)
        origin = f', trained with {origin},' if origin else ''
        raise UserError(
            f"checkpoint '{checkpoint}'{origin} does not fit the "
            f'configuration: {mismatch}; give the configuration that it was '
            'trained with')
    require_possible(found, checkpoint)
    pixels = pixels_of(getattr(model, 'data_preprocessor', None))
    require_pixels(trained_pixels(content), pixels, checkpoint,
                   'give the configuration that it was trained with')
    model.load_state_dict(found, strict=False)
    model.eval()
    return Source(model, settings, pixels, checkpoint, _classes(content),
                  _digest(checkpoint))


def _build(backbone: dict, settings: Mapping, checkpoint: str) -> nn.Module:
    """Build an encoder without weights.

    Raises:
        UserError: If its settings, which a file may hold, build none.
    """
    obstacle = find_obstacle(f'backbone = {backbone!r}')
    if obstacle or not isinstance(backbone.get('type'), str):
        raise UserError(
            f"the encoder of checkpoint '{checkpoint}' is not built: "
            f'{obstacle or "its settings have no type"}; give its '
            'configuration as well')
    try:
        with DefaultScope.overwrite_default_scope(_scope(settings)):
            return MODELS.build(dict(backbone))
    except UserError:
        raise
    # The parts of the toolboxes raise anything for settings that do not fit.
    except Exception as error:
        reason = ' '.join(str(error).split())[:200]
        raise UserError(
            f"the encoder of checkpoint '{checkpoint}' cannot be built: "
            f'{type(error).__name__}: {reason}') from error


def _settings_inside(content: Mapping) -> dict:
    """The configuration in a checkpoint, as far as it is plain."""
    meta = content.get('meta')
    if not isinstance(meta, Mapping):
        return {}
    return read_settings(meta.get('refused_cfg', meta.get('cfg')))


def _scope(settings: Mapping) -> str:
    return toolbox(settings) or 'mmpretrain'


def _pixels(settings: Mapping) -> Pixels | None:
    """The pixels that a configuration gives, mmpretrain's and mmdet's."""
    return trained_pixels(dict(meta=dict(cfg='\n'.join(
        f'{name} = {_plain(settings[name])!r}'
        for name in ('model', 'data_preprocessor') if settings.get(name)))))


def _plain(settings: Any) -> Any:
    """Settings as dicts, lists and values; classes by their names."""
    if isinstance(settings, Mapping):
        return {name: _plain(value) for name, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [_plain(value) for value in settings]
    if isinstance(settings, type):
        return f'{settings.__module__}.{settings.__qualname__}'
    return settings


def _classes(content: Mapping) -> tuple[str, ...]:
    meta = content.get('meta')
    dataset = meta.get('dataset_meta') if isinstance(meta, Mapping) else None
    classes = dataset.get('classes') if isinstance(dataset, Mapping) else None
    if not isinstance(classes, list | tuple):
        return ()
    return tuple(map(str, classes))


def _digest(path: str) -> str:
    """sha256 of a file."""
    path = os.path.expanduser(path)
    if not os.path.isfile(path):
        return ''
    digest = hashlib.sha256()
    with open(path, 'rb') as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
