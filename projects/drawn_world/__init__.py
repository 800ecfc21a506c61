# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Drawn images with content everywhere, as photographs have it, in colour.

Objects of a few categories lie among textured clutter on textured ground.
Only the outline of an object and the arrangement of its parts tell what it
is: colours and textures of objects, clutter and ground follow one law.
"""
from .objects import CLASSES
from .scenes import Scene, classification_scene, detection_scene
from .textures import TextureBank

__all__ = [
    'CLASSES', 'Scene', 'TextureBank', 'classification_scene',
    'detection_scene'
]
