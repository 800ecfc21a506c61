# Copyright (c) QB-Heat MM authors. All rights reserved.
from .buffers_hook import BroadcastBuffersHook
from .check_folders_hook import CheckFoldersHook
from .checkpoint_hooks import RequireCheckpointHook, StrictLoadHook
from .frozen_features_hook import FrozenFeaturesHook
from .non_finite_loss_hook import StopOnNonFiniteLossHook
from .random_state_hook import RandomStateHook
from .resume_hook import ResumeHook
from .safe_checkpoint_hook import SafeCheckpointHook

__all__ = [
    'BroadcastBuffersHook', 'CheckFoldersHook',
    'StrictLoadHook',
    'FrozenFeaturesHook', 'RandomStateHook', 'RequireCheckpointHook',
    'ResumeHook', 'SafeCheckpointHook',
    'StopOnNonFiniteLossHook'
]
