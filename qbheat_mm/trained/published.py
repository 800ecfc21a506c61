# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders with weights published for timm or mmpretrain."""
import os

from mmpretrain.apis.model import ModelHub

from ..errors import UserError
from ..models.backbones import TimmEncoder
from ..utils.settings import type_name
from .checkpoint import Checkpoint
from .encoder import Encoder, load_encoder, open_config
from .normalization import Normalization


def published_encoder(name: str,
                      weights: str | os.PathLike | None = None) -> Encoder:
    """Load the encoder of a published classifier.

    Args:
        name (str): ``'timm/NAME'`` for a CNN of timm; a model name or config
            of mmpretrain otherwise.
        weights (str | PathLike, optional): File or URL of the weights.
            Defaults to those that timm or mmpretrain downloads.

    Returns:
        Encoder: In evaluation mode, with its input normalization.

    Raises:
        UserError: If the network is unknown, or its weights do not load.

    Examples:
        >>> encoder = published_encoder('timm/resnet18', 'resnet18.pth')
        >>> export_encoder(encoder, 'encoder.safetensors')
    """
    package, _, rest = name.partition('/')
    if package == 'timm':
        return _from_timm(rest, weights)
    try:
        known = ModelHub.get(name)
        config, weights = known.config, weights or known.weights
    except ValueError as error:  # not a name
        if not os.path.isfile(name):
            raise UserError(
                f"'{name}' is neither a model of mmpretrain nor a config "
                "file; timm's start with timm/") from error
        config = open_config(name)
    if weights is None:
        raise UserError(f"'{name}' has no published weights: give a file")
    backbone = config.model.backbone
    if type_name(backbone) == 'ConvNeXt':
        backbone.gap_before_final_norm = False  # keep the map
    return load_encoder(os.fspath(weights), config)


def _from_timm(name: str, weights: str | os.PathLike | None) -> Encoder:
    import timm
    backbone = TimmEncoder(name, pretrained=weights is None)
    if weights is not None:
        Checkpoint.read(weights).load_encoder(backbone.network)
    facts = timm.data.resolve_model_data_config(backbone.network)
    mean, std = (tuple(255 * value for value in facts[key])
                 for key in ('mean', 'std'))
    return Encoder(
        backbone, Normalization(mean, std), f'timm/{name}',
        tuple(facts['input_size'][1:]),
        dict(type=TimmEncoder.__name__, name=name),
        os.fspath(weights or f'timm/{name}'))
