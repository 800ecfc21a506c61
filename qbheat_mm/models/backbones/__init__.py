# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Backbones, available in mmpretrain and mmdet."""
from .frozen_backbone import FrozenBackbone
from .mobile_former import MobileFormer
from .timm_encoder import TimmEncoder

__all__ = ['FrozenBackbone', 'MobileFormer', 'TimmEncoder']
