# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Annotation files in COCO's format: read, checked and mended.

Pure Python and numpy over the parsed JSON: neither mmdet nor mmcv's compiled
ops are needed.
"""
from .checking import Checked, check_annotations
from .masks import check_masks
from .pictures import check_pictures, size_loader
from .reading import read_annotations
from .report import Finding, Report

__all__ = [
    'Checked', 'Finding', 'Report', 'check_annotations', 'check_masks',
    'check_pictures', 'read_annotations', 'size_loader'
]
