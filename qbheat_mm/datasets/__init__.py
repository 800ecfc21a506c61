# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Image folders, image files and COCO files.

Modules are imported when needed: reading files takes no toolbox.
"""
import importlib
from itertools import chain
from typing import Any

_MODULES = dict(
    image_folder=('NamedImageFolder', 'NamedImageNet', 'find_images'),
    fitting=('fit', 'fitting_size', 'load_images'),
    images=('ImageError', 'read_image'),
    rand_augment=('LookupRandAugment', ),
    selection=('short_names', 'spread'),
    transforms=('LoadNamedImageFromFile', 'LoadRandomResizedCrop'))
__all__ = sorted(chain.from_iterable(_MODULES.values()))


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f'.{module}', __name__),
                           name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
