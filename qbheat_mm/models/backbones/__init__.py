"""Backbones, visible from the scopes of mmpretrain and mmdet."""
from .mobile_former import MobileFormer

__all__ = ['MobileFormer']
