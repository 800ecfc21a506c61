# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What is exported: a trained network, and what is known about it."""
import copy
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mmengine.config import Config, ConfigDict
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..apis import load_encoder
from ..compat import load_checkpoint
from ..engine.filling import fill
from ..engine.head_classes import set_classes
from ..engine.origin import Pixels, classes_in, pixels_of
from ..utils.settings import toolbox
from ..version import __version__


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
        size (tuple[int, int], optional): Height and width of the images that
            an encoder was trained on, where that is known.
    """
    model: nn.Module
    settings: dict
    pixels: Pixels | None
    checkpoint: str
    classes: tuple[str, ...] = field(default=())
    digest: str = ''
    size: tuple[int, int] | None = None

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
                 out_indices: tuple[int, ...] | None = None) -> Source:
    """The encoder of a checkpoint, and the settings that build it.

    Args:
        checkpoint (str): File or URL: pre-training, probing, classification,
            detection, or an encoder's safetensors.
        cfg (Config, optional): Its configuration. Defaults to None: the one
            inside the checkpoint, which is parsed and never run.
        out_indices (tuple[int, ...], optional): See :func:`load_encoder`.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If the checkpoint does not say what it holds, does not
            fit, is refused or damaged.
    """
    encoder = load_encoder(checkpoint, cfg, out_indices)
    return Source(encoder.backbone, _plain(encoder.settings), encoder.pixels,
                  checkpoint, digest=_digest(checkpoint), size=encoder.size)


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
    classes = classes_in(content)
    if cfg.get('count_classes') and classes:  # as a run does by its folders
        cfg = copy.deepcopy(cfg)
        set_classes(cfg, len(classes))
    settings = _plain(cfg.model)
    if cfg.get('data_preprocessor'):  # as mmengine's runner does
        settings.setdefault('data_preprocessor', _plain(cfg.data_preprocessor))
    settings.pop('train_cfg', None)  # nothing is trained
    with DefaultScope.overwrite_default_scope(_scope(cfg)):
        model = MODELS.build(ConfigDict(settings))
    fill(model, content, checkpoint)
    pixels = pixels_of(getattr(model, 'data_preprocessor', None))
    model.eval()
    return Source(model, settings, pixels, checkpoint, classes,
                  _digest(checkpoint))


def _scope(settings: Mapping) -> str:
    return toolbox(settings) or 'mmpretrain'


def _plain(settings: Any) -> Any:
    """Settings as dicts, lists and values; classes by their names."""
    if isinstance(settings, Mapping):
        return {name: _plain(value) for name, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [_plain(value) for value in settings]
    if isinstance(settings, type):
        return f'{settings.__module__}.{settings.__qualname__}'
    return settings


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
