# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Drawn images with texture everywhere, as in photographs.

Objects of eight classes lie among textured clutter. Only their outlines and
the arrangement of their parts tell the class: colors and textures of objects,
clutter and ground follow the same distributions.
"""
from .objects import CLASSES
from .scenes import Scene, classification_scene, detection_scene
from .textures import TextureBank

__all__ = [
    'CLASSES', 'Scene', 'TextureBank', 'classification_scene',
    'detection_scene'
]
