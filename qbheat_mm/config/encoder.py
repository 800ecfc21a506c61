# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Replace the encoder of any config by a pre-trained one."""
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mmengine.config import Config, ConfigDict
from mmengine.logging import print_log
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..errors import UserError
from ..models.backbones import MobileFormer
from ..models.outputs import Outputs, num_outputs
from ..models.selfsup import Distillation
from ..trained.checkpoint import Checkpoint
from ..trained.encoder_config import EncoderConfig
from ..trained.normalization import Normalization
from ..utils.settings import toolbox, type_name

#: Settings by which parts of a model name the width of their input.
WIDTHS = {'in_channels', 'input_features', 'token_dims'}
#: Parts whose output has the width of their input.
WIDTH_KEEPING = {'ClsBatchNormNeck'}


@dataclass(frozen=True)
class _Plan:
    """What changes in a config that gets the encoder of a file.

    Attributes:
        encoder (EncoderConfig): The encoder of the file.
        backbone (ConfigDict): Settings of the new backbone.
        frozen (bool): Whether it is frozen.
        has_layer_depths (bool): Whether it supports layer-wise decay of the
            learning rate.
        given (Outputs): Outputs of the config's own backbone.
        outputs (Outputs): Outputs of the new one.
    """
    encoder: EncoderConfig
    backbone: ConfigDict
    frozen: bool
    has_layer_depths: bool
    given: Outputs
    outputs: Outputs


def use_encoder(cfg: Config) -> None:
    """Replace the encoder of a config by the one in ``cfg.encoder``, a file.

    The file gives the backbone, its weights and its input normalization; the
    widths of neck and head follow. The new encoder is frozen if the old one
    is. A detector gets maps of the same strides and any coarser ones.

    Args:
        cfg (Config): Changed in place, unless an error is raised.

    Raises:
        UserError: If the file does not describe its encoder, or the model
            cannot use it.
    """
    path = os.fspath(cfg.encoder)
    plan = _plan(cfg, path)
    cfg.pop('encoder')
    cfg.model.backbone = plan.backbone
    _set_normalization(cfg, plan.encoder.normalization)
    _set_widths(cfg.model, plan.given, plan.outputs)
    if not plan.has_layer_depths:
        cfg.get('optim_wrapper', {}).get('paramwise_cfg', {}).pop(
            'layer_decay_rate', None)
    print_log(f"encoder='{path}': {plan.encoder.name}, "
              f'{"frozen" if plan.frozen else "trained"}, '
              f'{plan.outputs.channels} channels at strides '
              f'{plan.outputs.strides}')


def _plan(cfg: Config, path: str) -> _Plan:
    """Decide what to change, and change nothing."""
    encoder = EncoderConfig.stored_in(Checkpoint.read_once(path))
    own = cfg.model.backbone
    with DefaultScope.overwrite_default_scope(toolbox(cfg) or 'mmpretrain'):
        own_network = MODELS.build({**own, 'init_cfg': None})
    network = encoder.build()
    given = Outputs.of(own_network)
    if _has_same_arch(own, encoder):
        settings, outputs = dict(own), given
    else:
        settings, outputs = _choose_outputs(encoder, network, given)
    _require_outputs(cfg.model, given, outputs, f"'{path}' ({encoder.name})")
    if isinstance(own_network, MobileFormer) and isinstance(
            network, MobileFormer):
        settings = {**own, **settings}
    frozen = not any(weight.requires_grad
                     for weight in own_network.parameters())
    if not frozen:
        _require_trainable(own, network)
        if own.get('norm_eval') and hasattr(network, 'norm_eval'):
            settings['norm_eval'] = True
    elif isinstance(network, MobileFormer):
        settings['frozen_stages'] = network.num_stages + 1
    else:
        settings = dict(type='FrozenBackbone', network=settings)
    settings['init_cfg'] = dict(type='PretrainedEncoder', checkpoint=path)
    return _Plan(encoder, ConfigDict(settings), frozen,
                 _has_layer_depths(network), given, outputs)


def _has_same_arch(own: Mapping, encoder: EncoderConfig) -> bool:
    """Whether a config is written for a file's Mobile-Former.

    Its outputs fit, then: MF-Dec reads inner maps of V1.
    """
    return (type_name(own) == encoder.kind == MobileFormer.__name__
            and own.get('arch') == encoder.settings.get('arch'))


def _has_layer_depths(network: nn.Module) -> bool:
    """Whether a network supports layer-wise decay of the learning rate."""
    name, _ = next(network.named_parameters())
    try:
        network.get_layer_depth(name)
    # Some backbones of mmpretrain have the method, but only for some depths.
    except (AttributeError, NotImplementedError):
        return False
    return True


def _choose_outputs(encoder: EncoderConfig, network: nn.Module,
                    given: Outputs) -> tuple[dict, Outputs]:
    """Choose the deepest maps of the given strides or coarser, and tokens."""
    number = num_outputs(network)
    if number is None:
        return dict(encoder.settings), Outputs.of(network)
    outputs = Outputs.of(encoder.build(range(number)))
    indices = [len(outputs.strides) - 1]
    if len(given.strides) > 1:
        indices = sorted(i for stride, i in outputs.deepest.items()
                         if stride >= min(given.strides))
    if given.token_dims and outputs.token_dims:
        indices.append(len(outputs.strides))
    return (dict(encoder.settings, out_indices=tuple(indices)),
            outputs.select(indices))


def _require_outputs(model: ConfigDict, given: Outputs, outputs: Outputs,
                     source: str) -> None:
    """Raise UserError unless a model can use the new outputs."""
    name = type_name(model)
    if name == 'MobileFormerDETR':
        fits = given.strides == outputs.strides
    else:  # a model that reads one map takes any
        finer = _count_finer(given, outputs)
        needed = outputs.strides[finer:][:len(given.strides)]
        fits = len(given.strides) <= 1 or needed == given.strides and (
            not finer or type_name(model.get('neck') or {}) == 'FPN')
    if not fits:
        raise UserError(f'{name} needs maps of strides {given.strides}, and '
                        f'{source} has {outputs.strides}')
    anchors = _anchor_strides(model)
    if len(given.strides) == len(anchors) == 1 and anchors != outputs.strides:
        raise UserError(f'{name} has anchors for a map of stride {anchors[0]},'
                        f' and {source} has strides {outputs.strides}: set '
                        'the strides of its anchor_generator')
    neck = model.get('neck')
    if not outputs.token_dims and isinstance(neck, Mapping) and (
            type_name(neck) == 'MobileFormerV1Neck'):
        raise UserError(f'MobileFormerV1Neck needs tokens, and {source} has '
                        'none: use a config with another neck, such as '
                        'GlobalAveragePooling')


def _count_finer(given: Outputs, outputs: Outputs) -> int:
    """Count the maps that are finer than the finest one a model reads."""
    first = min(given.strides, default=0)
    return sum(stride < first for stride in outputs.strides)


def _anchor_strides(model: ConfigDict) -> list[int]:
    """Strides of the maps that a detector's anchors are for, if it has any."""
    for name in ('bbox_head', 'rpn_head'):
        head = model.get(name)
        if isinstance(head, Mapping) and 'anchor_generator' in head:
            return list(head['anchor_generator']['strides'])
    return []


def _require_trainable(own: Mapping, network: nn.Module) -> None:
    """Raise UserError if only some stages of another network are frozen."""
    if own.get('frozen_stages', -1) >= 0 and not isinstance(
            network, MobileFormer):
        raise UserError(
            f'model.backbone.frozen_stages={own.frozen_stages}: '
            f'{type(network).__name__} is frozen as a whole, or trained '
            'with -1')


def _set_normalization(cfg: Config, normalization: Normalization) -> None:
    given = cfg.model.get('data_preprocessor') or cfg.get('data_preprocessor')
    order = 'bgr_to_rgb' if toolbox(cfg) == 'mmdet' else 'to_rgb'
    given.update({
        'mean': list(normalization.mean) or None,
        'std': list(normalization.std) or None, order: normalization.rgb})


def _set_widths(model: ConfigDict, given: Outputs, outputs: Outputs) -> None:
    """Adapt the parts of a model that read the features."""
    if 'predictor' in model:  # pre-training
        model.predictor.in_channels = outputs.channels[-1]
        model.neck.patch_size = model.head.patch_size = outputs.strides[-1]
        return
    if type_name(model) == Distillation.__name__:
        model.in_channels = outputs.channels[-1]
    elif 'in_channels' in model:  # MF-Dec
        model.in_channels = outputs.channels
    for part in _feature_readers(model):
        if 'token_dims' in part:
            part.update(in_channels=outputs.channels[-1],
                        token_dims=outputs.token_dims or None)
        elif isinstance(part.get('in_channels'), list | tuple):
            part.in_channels = outputs.channels
            if _count_finer(given, outputs):
                part.start_level = _count_finer(given, outputs)
        else:
            for name in WIDTHS & {*part}:
                if part[name] == given.width:
                    part[name] = outputs.width


def _feature_readers(model: ConfigDict) -> Iterator[ConfigDict]:
    """Yield the parts of neck and head that read the encoder's features.

    Pooling, which has no widths, and batch norm pass features on. Whatever
    follows another part reads its output.
    """
    necks = model.get('neck') or []
    necks = necks if isinstance(necks, list | tuple) else [necks]
    for part in (*necks, model.get('head') or {}):
        yield part
        passes_on = type_name(part) in WIDTH_KEEPING or WIDTHS.isdisjoint(part)
        if not passes_on:
            return
