"""The self-supervised algorithm."""
from .qbheat import QBHeat
from .qbheat_predictor import QBHeatPredictor
from .random_patches import RandomPatches

__all__ = ['QBHeat', 'QBHeatPredictor', 'RandomPatches']
