# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a comparison compares: encoders of any source, and baselines."""
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from ..config.model_index import find_config
from ..config.reading import open_config
from ..errors import UserError
from ..trained.encoder import Encoder
from ..trained.encoder_config import EncoderConfig
from ..trained.loading import build_encoder, load_encoder
from ..trained.published_encoder import published_encoder
from .features import Features, describe_images, hog, maps_by, thumbnails

#: Takes part without being asked.
RANDOM = 'random weights'
#: The network of the random weights, with ImageNet's normalization.
NETWORK = dict(model=dict(
    backbone=dict(type='MobileFormer', arch='mf-285m'),
    data_preprocessor=dict(mean=[123.675, 116.28, 103.53],
                           std=[58.395, 57.12, 57.375], to_rgb=True)))


class Contender(NamedTuple):
    """Features to compare, by a name; an encoder's are maps and tokens."""
    name: str
    features: Features
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


def list_contenders(encoders: Mapping[str, str | Path | Encoder],
                    loader: dict, device: str = 'cpu') -> list[Contender]:
    """List what to compare, from cheap to dear.

    Encoders with random weights get the statistics of the images for batch
    norm.
    """
    contenders = [Contender('thumbnails', thumbnails, False),
                  Contender('HOG', hog, False)]
    torch.manual_seed(0)
    described = EncoderConfig(NETWORK, RANDOM)
    opened = {RANDOM: Encoder(described.build(), described.normalization)}
    for name, source in encoders.items():
        if name in ('thumbnails', 'HOG', RANDOM) or '/' in name:
            raise UserError(f'the name {name!r} of an encoder is taken or has '
                            'a slash: choose another')
        opened[name] = open_encoder(source)
    for name, encoder in opened.items():
        encoder.to(device)
        if not encoder.checkpoint:
            calibrate(encoder, loader)
        contenders.append(Contender(name, maps_by(encoder), True))
    return contenders


def calibrate(encoder: Encoder, loader: dict) -> None:
    """Set the statistics of batch norm to those of the images."""
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the mean of all batches
    encoder.train()
    describe_images(maps_by(encoder), dict(
        loader, sampler=dict(type='DefaultSampler', shuffle=True, seed=0)))
    encoder.eval()
