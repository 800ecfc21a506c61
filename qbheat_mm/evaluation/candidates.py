# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a comparison compares: encoders of any source, and baselines."""
import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from ..config.model_index import find_config
from ..config.reading import open_config
from ..errors import UserError, one_line
from ..trained.encoder import Encoder
from ..trained.encoder_config import EncoderConfig
from ..trained.loading import build_encoder, load_encoder
from ..trained.published_encoder import published_encoder
from .features import (
    Extractor,
    extract_features,
    hog,
    map_extractor,
    thumbnails,
)

#: Always compared.
RANDOM = 'random weights'
WITHOUT_LEARNING = ('thumbnails', 'HOG')
#: Side of the images.
SIZE = 160
#: The network of the random weights, with ImageNet's normalization.
NETWORK = dict(model=dict(
    backbone=dict(type='MobileFormer', arch='mf-285m'),
    data_preprocessor=dict(mean=[123.675, 116.28, 103.53],
                           std=[58.395, 57.12, 57.375], to_rgb=True)))


class Candidate(NamedTuple):
    """What to compare, by name; an encoder has maps and tokens."""
    name: str
    extract: Extractor
    has_maps: bool


def open_encoder(source: str | Path | Encoder) -> Encoder:
    """Open an encoder, whatever it is.

    Args:
        source (str | Path | Encoder): An encoder; the file of one, such as
            ``encoder.safetensors`` or a checkpoint; a config file or the name
            of one of ours, for the weights of its ``init_cfg`` or random
            ones; ``timm/NAME`` or a model name of mmpretrain, for published
            weights.

    Raises:
        UserError: If there is no such encoder.
    """
    if isinstance(source, Encoder):
        return source
    source = os.fspath(source)
    if source.endswith('.py') or find_config(source):
        return build_encoder(open_config(source), f"config '{source}'")
    if os.path.exists(source) or '://' in source:
        return load_encoder(source)
    if Path(source).suffix in ('.pth', '.ckpt', '.safetensors', '.bin'):
        raise UserError(f"encoder '{source}' does not exist")
    return published_encoder(source)


def open_encoders(encoders: Mapping[str, str | Path | Encoder],
                  device: str = 'cpu') -> dict[str, Encoder]:
    """Open encoders by name, random weights first; given ones are copied.

    Raises:
        UserError: If a name is reserved, or an encoder does not exist or take
            the images.
    """
    torch.manual_seed(0)
    described = EncoderConfig(NETWORK, RANDOM)
    opened = {RANDOM: Encoder(
        described.build(), described.normalization, described.name,
        settings=described.settings)}
    for name, source in encoders.items():
        if name in (*WITHOUT_LEARNING, RANDOM) or '/' in name:
            raise UserError(f'the name {name!r} of an encoder is reserved, or '
                            "contains '/': choose another")
        encoder = open_encoder(source)
        opened[name] = copy.deepcopy(encoder) if encoder is source else encoder
    for name, encoder in opened.items():
        set_input_size(name, encoder.to(device))
    return opened


def list_candidates(encoders: Mapping[str, str | Path | Encoder],
                    loader: dict, device: str = 'cpu') -> list[Candidate]:
    """List what to compare, cheapest first.

    Encoders with random weights get the statistics of the images for batch
    norm.

    Raises:
        UserError: See :func:`open_encoders`.
    """
    opened = open_encoders(encoders, device)
    candidates = [Candidate('thumbnails', thumbnails, False),
                  Candidate('HOG', hog, False)]
    for name, encoder in opened.items():
        calibrate(encoder, loader)
        candidates.append(Candidate(name, map_extractor(encoder), True))
    return candidates


def set_input_size(name: str, encoder: Encoder) -> None:
    """Let an encoder take the images, or raise UserError."""
    try:
        if hasattr(encoder.backbone, 'set_input_size'):
            encoder.backbone.set_input_size((SIZE, SIZE))
        with torch.no_grad():
            map_extractor(encoder)(torch.zeros(1, 3, SIZE, SIZE))
    # Networks raise errors of any type.
    except Exception as error:
        raise UserError(
            f'encoder {name!r} ({encoder.name}) returns no map for images '
            f'of {SIZE}x{SIZE} pixels, the size used here: '
            f'{type(error).__name__}: {one_line(error)[:200]}'
        ) from error


def calibrate(encoder: Encoder, loader: dict) -> None:
    """Set fresh statistics of batch norm to those of the images."""
    fresh = []
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm2d) and _is_fresh(module):
            fresh.append(module.train())
            module.momentum = None  # the mean of all batches
    if fresh and not encoder.checkpoint:
        extract_features(map_extractor(encoder), dict(
            loader, sampler=dict(type='DefaultSampler', shuffle=True, seed=0)))
    encoder.eval()


def _is_fresh(norm: nn.BatchNorm2d) -> bool:
    """Whether batch norm has the statistics that it begins with."""
    return norm.track_running_stats and bool(
        (norm.running_mean == 0).all() and (norm.running_var == 1).all())
