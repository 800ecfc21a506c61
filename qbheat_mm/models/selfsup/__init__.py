# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Self-supervised pre-training."""
from .decoder import QBHeatDecoder
from .distillation import Distillation
from .masked_image_model import MaskedImageModel
from .multi_scale_distillation import MultiScaleDistillation
from .pretrain_head import QBHeatPretrainHead
from .qbheat import QBHeat
from .qbheat_predictor import QBHeatPredictor
from .random_masking import RandomMasking
from .self_supervisor import SelfSupervisor
from .targets import TargetGenerator

__all__ = [
    'Distillation', 'MaskedImageModel', 'MultiScaleDistillation', 'QBHeat',
    'QBHeatDecoder', 'QBHeatPredictor', 'QBHeatPretrainHead',
    'RandomMasking', 'SelfSupervisor', 'TargetGenerator'
]
