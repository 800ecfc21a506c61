# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Detection on mmdet; importing it registers the parts into mmdet.

The only part of the package that needs mmdet and mmcv's compiled ops.
"""
from .coco import MatchedCocoDataset, MatchedCocoMetric
from .mobile_former_detr import MobileFormerDETR
from .summary import DetectionSummaryHook
from .transforms import PadToScale

__all__ = ['DetectionSummaryHook', 'MatchedCocoDataset', 'MatchedCocoMetric',
           'MobileFormerDETR', 'PadToScale']
