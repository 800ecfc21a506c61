# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The scope ``qbheat_mm``: parts that bear the name of a part they replace.

The toolboxes' inferencers and tools look for the loading transform of a
pipeline by its name, ``LoadImageFromFile``. A transform of that name with
``_scope_='qbheat_mm'`` is found by all of them, and is ours when it is built.
"""
from mmengine.registry import TRANSFORMS as MMENGINE_TRANSFORMS
from mmengine.registry import Registry

TRANSFORMS = Registry(
    'transform',
    parent=MMENGINE_TRANSFORMS,
    scope='qbheat_mm',
    locations=['qbheat_mm.datasets.transforms'])
