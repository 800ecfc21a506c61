# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Prepare what annotation tools export for training.

Every image, class and box of an export is in the output once, on its image,
under its name and in its split, or the report counts why not. Ambiguous
exports are refused, in one line that names the option to set.
"""
from .configs import DETECTORS
from .prepare_boxes import prepare_boxes
from .prepare_classes import prepare_classes

__all__ = ['DETECTORS', 'prepare_boxes', 'prepare_classes']
