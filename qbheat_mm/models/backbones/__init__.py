"""Backbones, available in mmpretrain and mmdet."""
from .mobile_former import MobileFormer

__all__ = ['MobileFormer']
