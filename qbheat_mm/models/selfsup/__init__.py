# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Self-supervised pre-training."""
from .distillation import Distillation
from .masked_image_model import MaskedImageModel
from .qbheat import QBHeat
from .qbheat_predictor import QBHeatPredictor
from .random_masking import RandomMasking
from .self_supervisor import SelfSupervisor
from .targets import TargetGenerator

__all__ = [
    'Distillation', 'MaskedImageModel', 'QBHeat', 'QBHeatPredictor',
    'RandomMasking', 'SelfSupervisor', 'TargetGenerator'
]
