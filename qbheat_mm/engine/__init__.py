# Copyright (c) QB-Heat MM authors. All rights reserved.
from .hooks import (
    AnalysisHook,
    CheckpointMatchHook,
    RandomStateHook,
    RequireCheckpointHook,
    StopOnNonFiniteLossHook,
)
from .pretrained_encoder import PretrainedEncoder

__all__ = [
    'AnalysisHook', 'CheckpointMatchHook', 'PretrainedEncoder',
    'RandomStateHook', 'RequireCheckpointHook', 'StopOnNonFiniteLossHook'
]
