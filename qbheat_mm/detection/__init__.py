# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Detection on mmdet; importing it registers the parts into mmdet.

The only part of the package that needs mmdet and mmcv's compiled ops.
"""
import qbheat_mm  # noqa: F401  (the backbone's registration)

from .coco import CheckClassesHook, MatchedCocoDataset, MatchedCocoMetric
from .mobile_former_detr import MobileFormerDETR

__all__ = [
    'CheckClassesHook', 'MatchedCocoDataset', 'MatchedCocoMetric',
    'MobileFormerDETR'
]
