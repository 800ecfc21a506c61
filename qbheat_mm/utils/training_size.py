# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The size of images that a configuration trains with."""
from collections.abc import Iterable, Iterator, Mapping

from mmengine.config import Config

from .settings import type_name


def training_size(cfg: Config | Mapping) -> tuple[int, int] | None:
    """Height and width that a configuration's pipeline brings images to.

    That of the last transform which crops to a size, or scales to one
    without keeping the ratio of the sides.

    Returns:
        tuple[int, int] | None: None where no transform of mmpretrain says so.
    """
    if cfg.get('default_scope', 'mmpretrain') != 'mmpretrain':
        return None
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        dataset = (cfg.get(loader) or {}).get('dataset') or {}
        while 'dataset' in dataset:
            dataset = dataset['dataset']
        sizes = [size for step in _steps(dataset.get('pipeline') or ())
                 if (size := _size_after(step)) is not None]
        if sizes:
            return sizes[-1]
    return None


def _steps(pipeline: Iterable) -> Iterator[Mapping]:
    """The transforms of a pipeline; of several views those of the first."""
    for step in pipeline:
        inner = step.get('transforms')
        if not inner:
            yield step
        elif isinstance(inner[0], Mapping):
            yield from _steps(inner)
        else:
            yield from _steps(inner[0])


def _size_after(step: Mapping) -> tuple[int, int] | None:
    """Height and width that a transform brings every image to."""
    name = type_name(step)
    size = step.get('size', step.get('crop_size', step.get('scale')))
    if size is None or 'Crop' not in name and (
            name != 'Resize' or step.get('keep_ratio')):
        return None
    if isinstance(size, int):
        return size, size
    # mmcv gives width and height, all others height and width.
    mmcv = name in ('CenterCrop', 'Resize')
    return tuple(size)[::-1] if mmcv else tuple(size)
