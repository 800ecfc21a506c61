"""The self-supervised algorithm."""
from .qbheat import QBHeat
from .qbheat_predictor import QBHeatPredictor

__all__ = ['QBHeat', 'QBHeatPredictor']
