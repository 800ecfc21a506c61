# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Build encoders with their weights."""
from collections.abc import Sequence

import torch
from mmengine.config import Config

from ..utils.settings import training_size, type_name
from .checkpoint import Checkpoint
from .encoder import Encoder, PretrainedEncoder
from .encoder_config import EncoderConfig
from .normalization import require_close


def load_encoder(checkpoint: str,
                 config: Config | None = None,
                 out_indices: Sequence[int] | None = None,
                 device: str = 'cpu') -> Encoder:
    """Build an encoder from its checkpoint and load all of its weights.

    Args:
        checkpoint (str): File or URL.
        config (Config, optional): For files of weights alone. Defaults to
            the config that the checkpoint stores.
        out_indices, device: See :func:`qbheat_mm.apis.load_encoder`.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If the checkpoint does not describe its encoder or does
            not fit.
    """
    trained = Checkpoint.read(checkpoint)
    if config is None:
        described = EncoderConfig.stored_in(trained)
    else:
        described = EncoderConfig(config.to_dict(),
                                  f"config '{config.filename}'")
    backbone = described.build(out_indices)
    trained.load_encoder(backbone, described.normalization)
    # The stored config includes --cfg-options.
    size = training_size(trained.config) or described.size
    return Encoder(backbone, described.normalization, described.name, size,
                   described.settings, trained.path).to(torch.device(device))


def build_encoder(config: Config,
                  source: str = 'the config',
                  out_indices: Sequence[int] | None = None) -> Encoder:
    """Build the encoder of a config with the weights of its ``init_cfg``.

    Args:
        config (Config): Its config.
        source, out_indices: See :func:`qbheat_mm.apis.build_encoder`.

    Raises:
        UserError: If the config has no encoder, or its weights do not fit.
    """
    described = EncoderConfig(config.to_dict(), source)
    init_cfg = described.given.get('init_cfg')
    backbone = described.build(out_indices, init_cfg=init_cfg)
    backbone.init_weights()
    checkpoint = ''
    if isinstance(init_cfg, dict) and (
            type_name(init_cfg) == PretrainedEncoder.__name__):
        checkpoint = init_cfg['checkpoint']
        if not init_cfg.get('allow_other_normalization'):
            trained = Checkpoint.read_once(checkpoint)
            require_close(trained.normalization, described.normalization,
                          checkpoint)
    return Encoder(backbone, described.normalization, described.name,
                   described.size, described.settings, checkpoint)
