# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The scope ``qbheat_mm``, for transforms named like those they replace.

The toolboxes' inferencers look for a transform named ``LoadImageFromFile``;
with ``_scope_='qbheat_mm'`` they find it, and ours is built.
"""
from mmengine.registry import TRANSFORMS as MMENGINE_TRANSFORMS
from mmengine.registry import Registry

TRANSFORMS = Registry(
    'transform',
    parent=MMENGINE_TRANSFORMS,
    scope='qbheat_mm',
    locations=['qbheat_mm.datasets.rand_augment',
               'qbheat_mm.datasets.transforms'])
