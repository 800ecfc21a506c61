# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Put the encoder of a file into the config of any model."""
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from mmengine.config import Config, ConfigDict
from mmengine.logging import print_log
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..errors import UserError
from ..models.backbones import MobileFormer
from ..models.selfsup import Distillation
from ..trained.checkpoint import Checkpoint
from ..trained.encoder_config import EncoderConfig
from ..trained.normalization import Normalization
from ..utils.settings import toolbox, type_name


@dataclass(frozen=True)
class Outputs:
    """What a backbone returns for an image.

    Attributes:
        strides, channels (list[int]): Stride and channels of each map.
        token_dims (int): Width of its tokens; 0 without.
    """
    strides: list[int]
    channels: list[int]
    token_dims: int = 0

    @classmethod
    def of(cls, backbone: nn.Module) -> 'Outputs':
        """Encode an image."""
        backbone.eval()  # returns None for a ResNet
        with torch.no_grad():
            outs = backbone(torch.zeros(1, 3, 256, 256))
        strides, channels, token_dims = [], [], 0
        for out in outs if isinstance(outs, tuple | list) else [outs]:
            if out.ndim == 4:
                strides.append(2**round(math.log2(256 / out.shape[3])))
                channels.append(out.shape[1])
            elif out.ndim == 3:
                token_dims = out.shape[2]
        return cls(strides, channels, token_dims)

    @property
    def width(self) -> int:
        """Width of the pooled last map and the first token."""
        return self.channels[-1] + self.token_dims

    def select(self, indices: Sequence[int]) -> 'Outputs':
        """Choose maps; tokens follow the last one."""
        number = len(self.strides)
        maps = [i for i in indices if i < number]
        return Outputs([self.strides[i] for i in maps],
                       [self.channels[i] for i in maps],
                       self.token_dims if number in indices else 0)


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
    described = EncoderConfig.stored_in(Checkpoint.read_once(path))
    with DefaultScope.overwrite_default_scope(toolbox(cfg) or 'mmpretrain'):
        old = MODELS.build({**cfg.model.backbone, 'init_cfg': None})
    new = described.build()
    before = Outputs.of(old)
    if _has_same_arch(cfg.model.backbone, described):
        settings, after = dict(cfg.model.backbone), before
    else:
        settings, after = _choose_outputs(described, new, before)
    _require_outputs(cfg.model, before, after, f"'{path}' ({described.name})")
    frozen = not any(weight.requires_grad for weight in old.parameters())
    if isinstance(old, MobileFormer) and isinstance(new, MobileFormer):
        settings = {**cfg.model.backbone, **settings}
    if not frozen:
        _require_trainable(cfg.model.backbone, new)
    elif isinstance(new, MobileFormer):
        settings['frozen_stages'] = new.num_stages + 1
    else:
        settings = dict(type='FrozenBackbone', network=settings)
    settings['init_cfg'] = dict(type='PretrainedEncoder', checkpoint=path)
    cfg.model.backbone = ConfigDict(settings)
    _set_normalization(cfg, described.normalization)
    _set_widths(cfg.model, before, after)
    if not _has_layer_depths(new):
        cfg.get('optim_wrapper', {}).get('paramwise_cfg', {}).pop(
            'layer_decay_rate', None)
    print_log(f"encoder='{path}': {described.name}, "
              f'{"frozen" if frozen else "trained"}, {after.channels} '
              f'channels at strides {after.strides}')


def _has_same_arch(given: Mapping, described: EncoderConfig) -> bool:
    """Whether a config is written for a file's Mobile-Former.

    Its outputs fit, then: MF-Dec reads inner maps of V1.
    """
    return (type_name(given) == described.kind == MobileFormer.__name__
            and given.get('arch') == described.settings.get('arch'))


def _has_layer_depths(network: nn.Module) -> bool:
    """Whether a network supports layer-wise decay of the learning rate."""
    name, _ = next(network.named_parameters())
    try:
        network.get_layer_depth(name)
    # Some backbones of mmpretrain have the method, but only for some depths.
    except (AttributeError, NotImplementedError):
        return False
    return True


def _choose_outputs(described: EncoderConfig, network: nn.Module,
                    before: Outputs) -> tuple[dict, Outputs]:
    """Replace outputs by the deepest maps of their strides, and tokens."""
    number = _num_outputs(network)
    if number is None:
        return dict(described.settings), Outputs.of(network)
    outputs = Outputs.of(described.build(range(number)))
    indices = [len(outputs.strides) - 1]
    if len(before.strides) > 1:
        deepest = {}
        for i, stride in enumerate(outputs.strides):
            if stride >= min(before.strides):
                deepest[stride] = i
        indices = sorted(deepest.values())
    if before.token_dims and outputs.token_dims:
        indices.append(len(outputs.strides))
    return (dict(described.settings, out_indices=tuple(indices)),
            outputs.select(indices))


def _num_outputs(network: nn.Module) -> int | None:
    """The number of outputs to choose from; None if they are fixed."""
    if hasattr(network, 'num_outputs'):
        return network.num_outputs
    # A published classifier takes the last one.
    indices = getattr(network, 'out_indices', None)
    if not isinstance(indices, tuple | list) or min(indices, default=-1) < 0:
        return None
    return max(indices) + 1


def _require_outputs(model: ConfigDict, before: Outputs, after: Outputs,
                     source: str) -> None:
    """Raise UserError unless a model can use the new outputs."""
    name = type_name(model)
    missing = len(before.strides) > 1 and {*before.strides} - {*after.strides}
    if missing or (name == 'MobileFormerDETR'
                   and before.strides != after.strides):
        raise UserError(f'{name} needs maps of strides {before.strides}, and '
                        f'{source} has {after.strides}')
    neck = model.get('neck')
    if not after.token_dims and isinstance(neck, Mapping) and (
            type_name(neck) == 'MobileFormerV1Neck'):
        raise UserError(f'MobileFormerV1Neck needs tokens, and {source} has '
                        'none: use a config with another neck, such as '
                        'GlobalAveragePooling')


def _require_trainable(given: Mapping, network: nn.Module) -> None:
    """Raise UserError if only some stages of another network are frozen."""
    if given.get('frozen_stages', -1) >= 0 and not isinstance(
            network, MobileFormer):
        raise UserError(
            f'model.backbone.frozen_stages={given.frozen_stages}: '
            f'{type(network).__name__} is frozen as a whole, or trained '
            'with -1')


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
    if type_name(model) == Distillation.__name__:
        model.in_channels = after.channels[-1]
    elif 'in_channels' in model:  # MF-Dec
        model.in_channels = after.channels
    necks = model.get('neck') or []
    necks = necks if isinstance(necks, list | tuple) else [necks]
    for part in (*necks, model.get('head') or {}):
        if 'token_dims' in part:
            part.update(in_channels=after.channels[-1],
                        token_dims=after.token_dims or None)
        elif isinstance(part.get('in_channels'), list | tuple):
            part.in_channels = after.channels
        for name in ('in_channels', 'input_features'):
            if part.get(name) == before.width:
                part[name] = after.width
