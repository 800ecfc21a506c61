# Copyright (c) QB-Heat MM authors. All rights reserved.
from .auto_scale_runner import AutoScaleRunner
from .hooks import (
    BroadcastBuffersHook,
    CheckFoldersHook,
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
    'BroadcastBuffersHook', 'CheckFoldersHook',
    'StrictLoadHook', 'AutoScaleRunner',
    'FrozenFeaturesHook', 'PretrainedEncoder', 'RandomStateHook',
    'RequireCheckpointHook', 'ResumeHook', 'SafeCheckpointHook',
    'StopOnNonFiniteLossHook'
]
