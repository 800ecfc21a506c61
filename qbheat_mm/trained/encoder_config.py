# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Describe and build the encoder of a config."""
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mmengine.config.utils import MODULE2PACKAGE
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..errors import UserError
from ..models.backbones import MobileFormer
from .normalization import Normalization
from .settings import dataset_settings, toolbox, type_name

# A registry imports unknown names: only classes of the toolboxes are built
# from the config stored in a checkpoint.
_CLASS = re.compile(r'((mmengine|mmcv|mmpretrain|mmdet)\.)?[A-Z]\w*')


class EncoderConfig:
    """An encoder's settings, input normalization and training size.

    Args:
        settings (Mapping): A whole config, as plain dicts.
        source (str): Its name, for messages.

    Attributes:
        kind, name (str): E.g. ``'ResNet'`` and ``'ResNet(depth=50)'``.
        given (dict): ``model.backbone``.
        settings (dict): Arguments of ``MODELS.build`` for the backbone alone,
            without its ``FrozenBackbone``, if any.
        normalization (Normalization): Input normalization.
        size (tuple[int, int] | None): Height and width of the training
            images, if fixed.

    Raises:
        UserError: If the config lacks the encoder or its normalization.
    """

    def __init__(self, settings: Mapping, source: str) -> None:
        given = next(find_settings(settings, 'backbone'), None)
        normalization = input_normalization(settings)
        if given is None or normalization is None:
            missing = ('model.backbone' if given is None else
                       'mean, std and channel order of the images')
            raise UserError(f'{source} does not contain {missing}: give its '
                            'config as well, as config=FILE')
        self.source = source
        self.given = given
        self.name = backbone_name(settings)
        self.normalization = normalization
        self.size = training_size(settings)
        self.settings = backbone_settings(dict(
            default_scope=settings.get('default_scope'),
            model=dict(backbone=unfrozen(given))))
        self.kind = type_name(self.settings)

    def require_toolbox_classes(self) -> None:
        """Raise UserError unless all types are classes of the toolboxes."""
        for kind in _types(self.given):
            if not (isinstance(kind, str) and _CLASS.fullmatch(kind)):
                raise UserError(
                    f"{self.source} names type={kind!r}, which is not a "
                    "toolbox's class: pass its config, as config=FILE")

    def build(self, out_indices: Sequence[int] | None = None,
              **options: Any) -> nn.Module:
        """Build the backbone, without weights.

        Args:
            out_indices (Sequence[int], optional): Its outputs. Defaults to
                the last features and the tokens of a ``MobileFormer``, and to
                the setting of others.
            **options: Further arguments of the backbone.

        Raises:
            UserError: If it cannot be built.
        """
        if self.kind == MobileFormer.__name__ and out_indices is None:
            out_indices = (-2, -1)
        if out_indices is not None:
            options['out_indices'] = tuple(out_indices)
        try:
            with DefaultScope.overwrite_default_scope('mmengine'):
                return MODELS.build({**self.settings, **options})
        # Constructors raise errors of any type.
        except Exception as error:
            raise UserError(f'{self.source}: cannot build {self.kind}: '
                            f'{" ".join(str(error).split())}') from error


def _types(settings: Any) -> Iterator[Any]:
    if isinstance(settings, Mapping):
        if 'type' in settings:
            yield settings['type']
        settings = list(settings.values())
    if isinstance(settings, list | tuple):
        for value in settings:
            yield from _types(value)


def find_settings(settings: Any, name: str) -> Iterator[dict]:
    """Yield dicts under a name at any depth, those of ``model`` first."""
    if not isinstance(settings, dict):
        return
    if isinstance(settings.get('model'), dict):
        yield from find_settings(settings['model'], name)
    if isinstance(settings.get(name), dict):
        yield settings[name]
    for value in settings.values():
        yield from find_settings(value, name)


def backbone_name(settings: Any) -> str:
    """Name the backbone of a config, e.g. ``"ResNet(depth=50)"``."""
    backbone = next(find_settings(settings, 'backbone'), None)
    if backbone is None:
        return ''
    backbone = unfrozen(backbone)
    known = []
    for key in ('arch', 'depth', 'name'):
        if isinstance(backbone.get(key), str | int):
            known.append(f'{key}={backbone[key]!r}')
    return f"{backbone.get('type', '')}({', '.join(known)})"


def unfrozen(backbone: Mapping) -> Mapping:
    """Settings of the network in a ``FrozenBackbone``."""
    network = backbone.get('network')
    return network if isinstance(network, Mapping) else backbone


def input_normalization(settings: Any) -> Normalization | None:
    """Return the input normalization of a config; None unless valid."""
    given = next(find_settings(settings, 'data_preprocessor'), None)
    return None if given is None else Normalization.from_settings(given)


def backbone_settings(cfg: Mapping) -> dict:
    """Return settings that build a config's backbone on its own.

    Args:
        cfg (Mapping): Config with ``model.backbone``.

    Returns:
        dict: Settings without ``init_cfg`` and frozen stages, with the scope
        of types outside the root registry.
    """
    given = cfg['model']['backbone']
    alone = {key: value for key, value in given.items() if key not in (
        'init_cfg', 'frozen_stages', 'norm_eval', '_scope_')}
    kind = alone.get('type')
    if not isinstance(kind, str) or kind in MODELS.module_dict:
        return alone
    scope = kind.split('.')[0]
    if scope not in MODULE2PACKAGE:
        scope = given.get('_scope_') or toolbox(cfg) or 'mmpretrain'
    return {**alone, '_scope_': scope}


def training_size(cfg: Mapping) -> tuple[int, int] | None:
    """Return the height and width of a config's training images.

    Returns:
        tuple[int, int] | None: Size after the last transform that crops, or
        resizes without keeping the aspect ratio; None if there is none.
    """
    if cfg.get('default_scope', 'mmpretrain') != 'mmpretrain':
        return None
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        pipeline = dataset_settings(cfg.get(loader)).get('pipeline') or ()
        size = None
        try:
            for step in _steps(pipeline):
                size = _size_after(step) or size
        except (AttributeError, TypeError):  # a file may contain anything
            return None
        if size:
            return size if _is_size(size) else None
    return None


def _is_size(size: tuple) -> bool:
    return len(size) == 2 and all(
        isinstance(side, int) and side > 0 for side in size)


def _steps(pipeline: Iterable) -> Iterator[Mapping]:
    """Yield a pipeline's transforms, including those of the first view."""
    for step in pipeline:
        inner = step.get('transforms')
        if not inner:
            yield step
        elif isinstance(inner[0], Mapping):
            yield from _steps(inner)
        else:
            yield from _steps(inner[0])


def _size_after(step: Mapping) -> tuple[int, int] | None:
    """Return height and width after a transform, if fixed."""
    name = type_name(step)
    size = step.get('size', step.get('crop_size', step.get('scale')))
    if size is None or 'Crop' not in name and (
            name != 'Resize' or step.get('keep_ratio')):
        return None
    if isinstance(size, int):
        return size, size
    # mmcv's transforms take width and height.
    return tuple(size)[::-1] if name in ('CenterCrop', 'Resize') else (
        tuple(size))
