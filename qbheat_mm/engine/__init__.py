# Copyright (c) QB-Heat MM authors. All rights reserved.
from .hooks import (
    CheckpointMatchHook,
    RandomStateHook,
    RequireCheckpointHook,
    StopOnNonFiniteLossHook,
)
from .pretrained_encoder import PretrainedEncoder

__all__ = [
    'CheckpointMatchHook', 'PretrainedEncoder', 'RandomStateHook',
    'RequireCheckpointHook', 'StopOnNonFiniteLossHook'
]
