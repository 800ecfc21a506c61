# Copyright (c) QB-Heat MM authors. All rights reserved.
from .analysis_hook import AnalysisHook
from .checkpoint_hooks import CheckpointMatchHook, RequireCheckpointHook
from .non_finite_loss_hook import StopOnNonFiniteLossHook
from .random_state_hook import RandomStateHook

__all__ = [
    'AnalysisHook', 'CheckpointMatchHook', 'RandomStateHook',
    'RequireCheckpointHook', 'StopOnNonFiniteLossHook'
]
