# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Prepare what annotation tools export for training.

For every image, class and box that an export states: it is in the output
once, on that image, under that name, in the split that the export gives; or
the report counts why not. What can be read in two ways is refused, in one
line that names the option that decides.
"""
from .configs import DETECTORS
from .prepare_boxes import prepare_boxes
from .prepare_classes import prepare_classes

__all__ = ['DETECTORS', 'prepare_boxes', 'prepare_classes']
