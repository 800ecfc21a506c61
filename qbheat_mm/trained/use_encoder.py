# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Put the encoder of a file into the config of any model."""
import math

import torch
from mmengine.config import Config, ConfigDict
from mmengine.logging import print_log
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..errors import UserError
from ..models.backbones import MobileFormer
from ..utils.settings import toolbox, type_name
from .checkpoint import Checkpoint
from .encoder_config import EncoderConfig
from .normalization import Normalization


class Outputs:
    """What a backbone returns for an image.

    Attributes:
        strides, channels (list[int]): Stride and channels of each map.
        token_dims (int): Width of its tokens; 0 without.
        width (int): Width of the pooled last map and the first token.
    """

    def __init__(self, backbone: nn.Module) -> None:
        backbone.eval()  # returns None for a ResNet
        with torch.no_grad():
            outs = backbone(torch.zeros(1, 3, 256, 256))
        outs = outs if isinstance(outs, tuple | list) else (outs, )
        maps = [out for out in outs if out.ndim == 4]
        self.strides = [2**round(math.log2(256 / out.shape[3]))
                        for out in maps]
        self.channels = [out.shape[1] for out in maps]
        self.token_dims = max(
            (out.shape[2] for out in outs if out.ndim == 3), default=0)
        self.width = self.channels[-1] + self.token_dims


def use_encoder(cfg: Config) -> None:
    """Replace the encoder of a config by that of the file ``cfg.encoder``.

    The file gives the backbone, its weights and its input normalization; the
    widths of neck and head follow. The encoder is frozen if that of the
    config is. A detector gets maps of the same strides and any coarser ones.

    Args:
        cfg (Config): Changed in place, if ``cfg.encoder`` is set.

    Raises:
        UserError: If the file does not describe its encoder, or the model
            cannot use it.
    """
    path = cfg.get('encoder')
    if path is None:
        return
    cfg.pop('encoder')
    given, name = cfg.model.backbone, type_name(cfg.model)
    described = EncoderConfig(Checkpoint.read(path).config,
                              f"checkpoint '{path}'")
    described.require_toolbox_classes()
    described.settings = described.settings.get('network', described.settings)
    with DefaultScope.overwrite_default_scope(toolbox(cfg) or 'mmpretrain'):
        old = MODELS.build({**given, 'init_cfg': None})
    frozen = not any(weight.requires_grad for weight in old.parameters())
    before = Outputs(old)
    settings, new = _choose_outputs(described, before)
    after = Outputs(new)
    if len(before.strides) > 1 and {*before.strides} - {*after.strides} or (
            name == 'MobileFormerDETR' and before.strides != after.strides):
        raise UserError(f'{name} needs maps of strides {before.strides}, and '
                        f"'{path}' ({described.name}) has {after.strides}")
    if isinstance(new, MobileFormer):
        if isinstance(old, MobileFormer):
            settings = {**given, **settings}
        if frozen:
            settings['frozen_stages'] = new.num_stages + 1
    elif frozen:
        settings = dict(type='FrozenBackbone', network=settings)
    elif given.get('frozen_stages', -1) >= 0:
        raise UserError(
            f'model.backbone.frozen_stages={given.frozen_stages}: '
            f'{described.name} is frozen as a whole, or trained with -1')
    settings['init_cfg'] = dict(type='PretrainedEncoder', checkpoint=path)
    cfg.model.backbone = ConfigDict(settings)
    _set_normalization(cfg, described.normalization)
    _set_widths(cfg.model, before, after)
    if not hasattr(new, 'get_layer_depth'):
        cfg.get('optim_wrapper', {}).get('paramwise_cfg', {}).pop(
            'layer_decay_rate', None)
    print_log(f"encoder='{path}': {described.name}, "
              f'{"frozen" if frozen else "trained"}, {after.channels} '
              f'channels at strides {after.strides}')


def _choose_outputs(described: EncoderConfig,
                    before: Outputs) -> tuple[dict, nn.Module]:
    """Replace outputs by the deepest maps of their strides, and tokens."""
    new = described.build()
    # No backbone of the toolboxes has more.
    for number in range(getattr(new, 'num_outputs', 20), 0, -1):
        try:
            found = Outputs(described.build(range(number)))
            break
        except UserError:
            continue
    else:  # its outputs are fixed
        return described.settings, new
    indices = [len(found.strides) - 1]
    if len(before.strides) > 1:
        indices = sorted({
            stride: i for i, stride in enumerate(found.strides)
            if stride >= min(before.strides)}.values())
    if before.token_dims and found.token_dims:
        indices.append(len(found.strides))
    return (dict(described.settings, out_indices=tuple(indices)),
            described.build(indices))


def _set_normalization(cfg: Config, normalization: Normalization) -> None:
    given = cfg.model.get('data_preprocessor') or cfg.get('data_preprocessor')
    order = 'bgr_to_rgb' if toolbox(cfg) == 'mmdet' else 'to_rgb'
    given.update({
        'mean': list(normalization.mean) or None,
        'std': list(normalization.std) or None, order: normalization.rgb})


def _set_widths(model: ConfigDict, before: Outputs, after: Outputs) -> None:
    """Adapt the parts of a model that read the features."""
    if 'predictor' in model:  # pre-training
        model.predictor.in_channels = after.channels[-1]
        model.neck.patch_size = model.head.patch_size = after.strides[-1]
        return
    if 'in_channels' in model:  # MF-Dec
        model.in_channels = after.channels
    necks = model.get('neck') or []
    for part in (*(necks if isinstance(necks, list | tuple) else [necks]),
                 model.get('head') or {}):
        if 'token_dims' in part:
            part.update(in_channels=after.channels[-1],
                        token_dims=after.token_dims or None)
        elif isinstance(part.get('in_channels'), list | tuple):
            part.in_channels = after.channels
        for name in ('in_channels', 'input_features'):
            if part.get(name) == before.width:
                part[name] = after.width
