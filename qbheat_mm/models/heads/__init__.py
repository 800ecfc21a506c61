"""Heads: where a loss is computed."""
from .qbheat_head import QBHeatPretrainHead

__all__ = ['QBHeatPretrainHead']
