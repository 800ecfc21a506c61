# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Distillation: how a published network, the teacher, trains another one.

A hook lets the teacher encode the training images once, before the first step;
a step compares features with the maps of the crop that the student sees.
"""
from .map_folder import MapFolder
from .targets import EncoderTarget
from .teacher import Teacher
from .training import DistillationLoop, TeacherHook

__all__ = [
    'DistillationLoop', 'EncoderTarget', 'MapFolder', 'Teacher', 'TeacherHook'
]
