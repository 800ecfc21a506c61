# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read settings from mmengine configs."""
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mmengine.config import Config
from mmengine.config.utils import MODULE2PACKAGE
from mmengine.registry import MODELS


def type_name(settings: Mapping) -> str:
    """Return the class name in ``type``, without scope or module.

    The type may be a name or a class; ``''`` if there is none.
    """
    kind = settings.get('type') or ''
    return getattr(kind, '__name__', str(kind)).split('.')[-1]


def toolbox(cfg: Mapping) -> str | None:
    """Return the toolbox of a config, e.g. ``'mmdet'``; None if unknown.

    This is the default scope, or in new-style configs the package of the
    model's class.
    """
    if cfg.get('default_scope'):
        return cfg['default_scope']
    model = cfg.get('model')
    kind = model.get('type') if isinstance(model, Mapping) else None
    name = kind if isinstance(kind, str) else getattr(kind, '__module__', '')
    return name.split('.')[0] if name and '.' in name else None


def set_classes(cfg: Config, number: int) -> None:
    """Write the number of classes wherever a classifier needs it."""
    model = cfg.model.get('module', cfg.model)  # test-time augmentation
    for part in (model.head, model.get('data_preprocessor'),
                 cfg.get('data_preprocessor')):
        if part and 'num_classes' in part:
            part.num_classes = number


def dataset_settings(loader: Mapping | None) -> Mapping:
    """Return the settings of a loader's data set, without wrappers."""
    dataset = (loader or {}).get('dataset') or {}
    while 'dataset' in dataset:
        dataset = dataset['dataset']
    return dataset


def prediction_transforms(cfg: Mapping) -> list[Mapping]:
    """Return the test pipeline between loading and packing; [] if none."""
    loader = cfg.get('test_dataloader') or cfg.get('val_dataloader')
    pipeline = dataset_settings(loader).get('pipeline') or ()
    return [step for step in pipeline[1:-1]
            if not type_name(step).endswith('Annotations')]


def loader_settings(settings: Mapping) -> Mapping:
    """Drop worker settings if ``num_workers=0``."""
    if settings.get('num_workers') != 0:
        return settings
    kept = type(settings)(settings, persistent_workers=False)
    kept.pop('prefetch_factor', None)
    return kept


def find_settings(settings: Any, name: str) -> Iterator[dict]:
    """Yield dicts under a name at any depth, first inside ``model``."""
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


def backbone_settings(cfg: Mapping) -> dict:
    """Return settings that build a config's backbone on its own.

    Args:
        cfg (Mapping): Config with ``model.backbone``.

    Returns:
        dict: Settings without ``init_cfg`` and frozen stages, with the scope
        of types outside the root registry.
    """
    given = cfg['model']['backbone']
    alone = dict(given)
    for name in ('init_cfg', 'frozen_stages', 'norm_eval', '_scope_'):
        alone.pop(name, None)
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
    """Yield a pipeline's transforms, and of several views the first's."""
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
    size = tuple(size)
    # mmcv's transforms take width and height.
    return size[::-1] if name in ('CenterCrop', 'Resize') else size
