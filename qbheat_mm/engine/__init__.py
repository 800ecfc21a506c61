# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The runner, its hooks and its parts."""
from ..trained.encoder import PretrainedEncoder
from .auto_scale_runner import AutoScaleRunner
from .check_classes import CheckClassesHook
from .console import DurationHook, RunAdviceHook, ThroughputLogProcessor
from .frozen_features import FrozenFeaturesHook
from .parameter_groups import GroupedOptimWrapperConstructor
from .random_state import RandomStateHook
from .resume import ResumeHook
from .safe_checkpoint import (
    BroadcastBuffersHook,
    SafeCheckpointHook,
    StopOnNonFiniteLossHook,
)
from .strict_load import StrictLoadHook

__all__ = [
    'AutoScaleRunner', 'BroadcastBuffersHook', 'CheckClassesHook',
    'DurationHook', 'FrozenFeaturesHook', 'GroupedOptimWrapperConstructor',
    'PretrainedEncoder', 'RandomStateHook', 'ResumeHook',
    'RunAdviceHook', 'SafeCheckpointHook', 'StopOnNonFiniteLossHook',
    'StrictLoadHook', 'ThroughputLogProcessor'
]
