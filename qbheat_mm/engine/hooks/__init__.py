# Copyright (c) QB-Heat MM authors. All rights reserved.
from .checkpoint_hooks import CheckpointMatchHook, RequireCheckpointHook
from .non_finite_loss_hook import StopOnNonFiniteLossHook
from .random_state_hook import RandomStateHook

__all__ = [
    'CheckpointMatchHook', 'RandomStateHook', 'RequireCheckpointHook',
    'StopOnNonFiniteLossHook'
]
