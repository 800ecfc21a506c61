# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Trained models: checkpoints, encoders, heads, their input and classes.

``heads`` is imported on use, since mmpretrain's models import mmdet.
"""
from .checkpoint import Checkpoint
from .encoder import Encoder, PretrainedEncoder
from .loading import build_encoder, load_encoder
from .normalization import Normalization, Normalize

__all__ = [
    'Checkpoint', 'Encoder', 'Normalization', 'Normalize', 'PretrainedEncoder',
    'build_encoder', 'load_encoder'
]
