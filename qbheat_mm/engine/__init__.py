# Copyright (c) QB-Heat MM authors. All rights reserved.
from .hooks import (
    AnalysisHook,
    BroadcastBuffersHook,
    CheckFoldersHook,
    CheckpointMatchHook,
    ExportEncoderHook,
    FrozenFeaturesHook,
    RandomStateHook,
    RequireCheckpointHook,
    ResumeHook,
    SafeCheckpointHook,
    StopOnNonFiniteLossHook,
)
from .pretrained_encoder import PretrainedEncoder
from .runner import FittingRunner

__all__ = [
    'AnalysisHook', 'BroadcastBuffersHook', 'CheckFoldersHook',
    'CheckpointMatchHook', 'ExportEncoderHook', 'FittingRunner',
    'FrozenFeaturesHook', 'PretrainedEncoder', 'RandomStateHook',
    'RequireCheckpointHook', 'ResumeHook', 'SafeCheckpointHook',
    'StopOnNonFiniteLossHook'
]
