# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Self-supervised pre-training."""
from .qbheat import QBHeat
from .qbheat_predictor import QBHeatPredictor
from .random_masking import RandomMasking

__all__ = ['QBHeat', 'QBHeatPredictor', 'RandomMasking']
