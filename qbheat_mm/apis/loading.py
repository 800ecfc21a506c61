# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load encoders and heads by the files or names of their configs."""
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mmengine.config import Config

from .. import trained
from ..config.reading import open_config

if TYPE_CHECKING:
    from ..trained.heads import Heads


def load_encoder(checkpoint: str,
                 config: str | os.PathLike | Config | None = None,
                 out_indices: Sequence[int] | None = None,
                 device: str = 'cpu') -> trained.Encoder:
    """Build an encoder from its checkpoint and load all of its weights.

    The config stored in the checkpoint is parsed, never executed.

    Args:
        checkpoint (str): File or URL of pre-training, probing, fine-tuning
            or detection, or an exported ``encoder.safetensors``.
        config (str | PathLike | Config, optional): Config file, or the name
            of one of ours, for files of weights alone. Config files are
            executed. Defaults to None.
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
    if config is not None:
        config = open_config(config)
    return trained.load_encoder(checkpoint, config, out_indices, device)


def build_encoder(config: str | os.PathLike | Config,
                  source: str = 'the config',
                  out_indices: Sequence[int] | None = None
                  ) -> trained.Encoder:
    """Build the encoder of a config with the weights of its ``init_cfg``.

    Args:
        config (str | PathLike | Config): Config file, name of ours, or
            config.
        source (str): Its name in messages.
        out_indices (Sequence[int], optional): See :func:`load_encoder`.

    Returns:
        Encoder: In evaluation mode, with random weights if ``init_cfg`` is
        None.

    Raises:
        UserError: If the config has no encoder, or its weights do not fit.
    """
    return trained.build_encoder(open_config(config), source, out_indices)


def load_heads(heads: Mapping[str, tuple[str | os.PathLike | Config, str]],
               device: str = 'cpu') -> 'Heads':
    """Load models that were trained on the same frozen encoder.

    Args:
        heads (Mapping[str, tuple[str | PathLike | Config, str]]): Config and
            checkpoint of each run by a name: classifiers of mmpretrain and
            detectors of mmdet.
        device (str): Defaults to 'cpu'.

    Returns:
        Heads: Runs the encoder once for all of them.

    Raises:
        FileNotFoundError: If a checkpoint is missing.
        UserError: If a checkpoint does not fit its config, or the encoders
            or their input differ.

    Examples:
        >>> heads = load_heads({'classes': ('lin.py', 'lin.pth'),
        ...                     'boxes': ('retinanet.py', 'retinanet.pth')})
        >>> found = heads.predict(torch.zeros(1, 3, 320, 320))
        >>> found['classes'][0].pred_label, found['boxes'][0].pred_instances
    """
    from ..trained import heads as loading  # loads mmdet
    opened = {}
    for name, (config, checkpoint) in heads.items():
        opened[name] = open_config(config), checkpoint
    return loading.load_heads(opened, device)
