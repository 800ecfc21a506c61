# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Backbones, available in mmpretrain and mmdet."""
from .mobile_former import MobileFormer
from .published import FrozenBackbone, TimmEncoder

__all__ = ['FrozenBackbone', 'MobileFormer', 'TimmEncoder']
