# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders with weights published for timm or mmpretrain."""
import os

import torch
from mmengine.config import Config
from mmpretrain.apis.model import ModelHub

from ..errors import UserError, one_line
from ..models.backbones import TimmEncoder
from ..utils.settings import type_name
from .checkpoint import Checkpoint
from .encoder import Encoder
from .loading import load_encoder
from .normalization import Normalization

#: Backbones that pool, unless told otherwise.
POOLING = ('ConvNeXt', 'EdgeNeXt', 'HorNet', 'TinyViT')


def published_encoder(name: str,
                      weights: str | os.PathLike | None = None) -> Encoder:
    """Load the encoder of a published classifier.

    Args:
        name (str): ``'timm/NAME'`` for a network of timm, or a model name or
            config file of mmpretrain.
        weights (str | PathLike, optional): File or URL of the weights.
            Defaults to those that timm or mmpretrain downloads.

    Returns:
        Encoder: In evaluation mode, with its input normalization.

    Raises:
        UserError: If the network is unknown, its weights do not load, or it
            has no feature map.
    """
    load = _from_timm if name.startswith('timm/') else _from_mmpretrain
    encoder = load(name, weights)
    with torch.no_grad():
        outs = encoder(torch.zeros(1, 3, *(encoder.size or (224, 224))))
    shapes = [out.shape for out in outs if out is not None]
    if 4 not in map(len, shapes):
        raise UserError(f'{name} returns no feature map (B, C, H, W), but '
                        f'{", ".join(map(str, shapes))}')
    return encoder


def _from_mmpretrain(name: str, weights: str | os.PathLike | None) -> Encoder:
    if os.path.isfile(name):
        config = Config.fromfile(name)
    else:
        config, published = _model_of_mmpretrain(name)
        weights = weights or published
    if weights is None:
        raise UserError(f"'{name}': give the file of its weights")
    if type_name(config.model.backbone) in POOLING:
        config.model.backbone.gap_before_final_norm = False
    return load_encoder(os.fspath(weights), config)


def _model_of_mmpretrain(name: str) -> tuple[Config, str | None]:
    try:
        known = ModelHub.get(name)
    except ValueError as error:
        raise UserError(f"'{name}' is neither timm/NAME nor a model or "
                        'config file of mmpretrain') from error
    # A config may be broken in any way.
    except Exception as error:
        raise UserError(
            f"'{name}': mmengine cannot read the config that mmpretrain "
            f'ships ({one_line(error)[:200]})') from error
    return known.config, known.weights


def _from_timm(name: str, weights: str | os.PathLike | None) -> Encoder:
    known = name.removeprefix('timm/')
    try:
        backbone = TimmEncoder(known, pretrained=weights is None)
    # timm and its hub raise errors of any type.
    except Exception as error:
        raise UserError(f'{name}: {one_line(error)}') from error
    import timm
    if weights is not None:
        tensors = Checkpoint.read(weights).weights
        classifier = (timm.create_model(known).state_dict().keys()
                      - backbone.network.state_dict().keys())
        for tensor in classifier:
            tensors.pop(tensor, None)
        Checkpoint(tensors, weights).load_encoder(backbone.network)
    facts = timm.data.resolve_model_data_config(backbone.network)
    normalization = Normalization(
        tuple(255 * value for value in facts['mean']),
        tuple(255 * value for value in facts['std']))
    return Encoder(
        backbone, normalization, name, tuple(facts['input_size'][1:]),
        dict(type='TimmEncoder', name=known), os.fspath(weights or name))
