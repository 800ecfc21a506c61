# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Put the encoder of a file into the config of any model."""
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from mmengine.config import Config, ConfigDict
from mmengine.logging import print_log
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..errors import UserError
from ..models.backbones import FrozenBackbone, MobileFormer
from ..utils.settings import toolbox, type_name
from .checkpoint import Checkpoint
from .encoder import PretrainedEncoder
from .encoder_config import EncoderConfig
from .normalization import Normalization

#: More than any backbone of the toolboxes has.
_MANY = 20


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
    model = cfg.model
    described = EncoderConfig(Checkpoint.read(path).config,
                              f"checkpoint '{path}'")
    described.require_toolbox_classes()
    with DefaultScope.overwrite_default_scope(toolbox(cfg) or 'mmpretrain'):
        given = MODELS.build({**model.backbone, 'init_cfg': None})
    frozen = not any(weight.requires_grad for weight in given.parameters())
    before = _Outputs.of(given)
    backbone, after = _choose_outputs(described, before)
    _require_maps(model, before, after, described)
    settings = dict(described.settings.get('network', described.settings),
                    out_indices=after.indices)
    if isinstance(backbone, MobileFormer):
        if isinstance(given, MobileFormer):
            settings = {**model.backbone, **settings}
        if frozen:
            settings['frozen_stages'] = backbone.num_stages + 1
    elif frozen:
        settings = dict(type=FrozenBackbone.__name__, network=settings,
                        out_indices=settings.pop('out_indices'))
    elif model.backbone.get('frozen_stages', -1) >= 0:
        raise UserError(
            f'model.backbone.frozen_stages={model.backbone.frozen_stages}: '
            f'{described.name} is frozen as a whole, or trained with -1')
    settings['init_cfg'] = dict(
        type=PretrainedEncoder.__name__, checkpoint=path)
    model.backbone = ConfigDict(settings)
    _set_normalization(cfg, described.normalization)
    _set_widths(model, before, after)
    if not hasattr(backbone, 'get_layer_depth'):
        cfg.get('optim_wrapper', {}).get('paramwise_cfg', {}).pop(
            'layer_decay_rate', None)
    print_log(f"encoder='{path}': {described.name}, "
              f'{"frozen" if frozen else "trained"}, {after.channels} '
              f'channels at strides {after.strides}, {described.normalization}'
              )


@dataclass(frozen=True)
class _Outputs:
    """Maps and tokens that a backbone returns.

    Attributes:
        maps (dict[int, tuple[int, int]]): Stride and channels by output.
        tokens (dict[int, int]): Width by output.
    """
    maps: dict[int, tuple[int, int]]
    tokens: dict[int, int]

    @classmethod
    def of(cls, backbone: nn.Module) -> '_Outputs':
        """Find the outputs for an image."""
        backbone.eval()  # returns None for a ResNet
        with torch.no_grad():
            outs = backbone(torch.zeros(1, 3, 256, 256))
        outs = outs if isinstance(outs, tuple | list) else [outs]
        return cls({i: (2**round(math.log2(256 / out.shape[-1])), out.shape[1])
                    for i, out in enumerate(outs) if out.ndim == 4},
                   {i: out.shape[2] for i, out in enumerate(outs)
                    if out.ndim == 3})

    def keep(self, indices: Iterable[int]) -> '_Outputs':
        return _Outputs(*({i: each[i] for i in each if i in indices}
                          for each in (self.maps, self.tokens)))

    @property
    def indices(self) -> tuple[int, ...]:
        return (*self.maps, *self.tokens)

    @property
    def strides(self) -> list[int]:
        return [stride for stride, _ in self.maps.values()]

    @property
    def channels(self) -> list[int]:
        return [channels for _, channels in self.maps.values()]

    @property
    def token_dims(self) -> int:
        """Width of the tokens; 0 without."""
        return max(self.tokens.values(), default=0)

    @property
    def width(self) -> int:
        """Width of the pooled last map and the first token."""
        return self.channels[-1] + self.token_dims


def _choose_outputs(described: EncoderConfig,
                    before: _Outputs) -> tuple[nn.Module, _Outputs]:
    """Build an encoder, and choose the outputs that replace those before."""
    backbone = described.build()
    for number in range(getattr(backbone, 'num_outputs', _MANY), 0, -1):
        try:
            backbone = described.build(range(number))
            break
        except UserError:
            continue
    found = _Outputs.of(backbone)
    # The deepest map of each stride.
    last = {stride: i for i, (stride, _) in found.maps.items()}
    if len(before.maps) == 1:
        kept = [max(found.maps)]
    else:
        kept = [i for stride, i in last.items()
                if stride >= min(before.strides)]
    return backbone, found.keep(kept + list(found.tokens if before.tokens
                                            else ()))


def _require_maps(model: ConfigDict, before: _Outputs, after: _Outputs,
                  described: EncoderConfig) -> None:
    """Raise UserError if a detector would lack maps, or get too many."""
    exact = type_name(model) == 'MobileFormerDETR'
    if len(before.maps) > 1 and {*before.strides} - {*after.strides} or (
            exact and before.strides != after.strides):
        raise UserError(
            f'{type_name(model)} needs maps of strides {before.strides}, and '
            f'{described.name} of {described.source} has {after.strides}: '
            'use RetinaNet, or a MobileFormer')


def _set_normalization(cfg: Config, normalization: Normalization) -> None:
    """Normalize images as the encoder was trained."""
    given = cfg.model.get('data_preprocessor') or cfg.get('data_preprocessor')
    order = 'bgr_to_rgb' if toolbox(cfg) == 'mmdet' else 'to_rgb'
    given.update({
        'mean': list(normalization.mean) or None,
        'std': list(normalization.std) or None, order: normalization.rgb})


def _set_widths(model: ConfigDict, before: _Outputs, after: _Outputs) -> None:
    """Adapt what reads the features."""
    if 'predictor' in model:  # pre-training
        model.predictor.in_channels = after.channels[-1]
        model.neck.patch_size = model.head.patch_size = after.strides[-1]
        return
    if type_name(model) == 'MobileFormerDETR':
        model.in_channels = after.channels
    necks = model.get('neck') or []
    parts = [*(necks if isinstance(necks, list | tuple) else [necks]),
             model.get('head') or {}]
    for part in parts:
        if 'token_dims' in part:
            part.update(in_channels=after.channels[-1],
                        token_dims=after.token_dims or None)
        elif isinstance(part.get('in_channels'), list | tuple):
            part.in_channels = after.channels
        for name in ('in_channels', 'input_features'):
            if part.get(name) == before.width:
                part[name] = after.width
