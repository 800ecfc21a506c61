# Copyright (c) QB-Heat MM authors. All rights reserved.
from .auto_scale_runner import AutoScaleRunner
from .hooks import (
    AnalysisHook,
    BroadcastBuffersHook,
    CheckFoldersHook,
    ExportEncoderHook,
    FrozenFeaturesHook,
    RandomStateHook,
    RequireCheckpointHook,
    ResumeHook,
    SafeCheckpointHook,
    StopOnNonFiniteLossHook,
    StrictLoadHook,
)
from .pretrained_encoder import PretrainedEncoder

__all__ = [
    'AnalysisHook', 'BroadcastBuffersHook', 'CheckFoldersHook',
    'StrictLoadHook', 'ExportEncoderHook', 'AutoScaleRunner',
    'FrozenFeaturesHook', 'PretrainedEncoder', 'RandomStateHook',
    'RequireCheckpointHook', 'ResumeHook', 'SafeCheckpointHook',
    'StopOnNonFiniteLossHook'
]
