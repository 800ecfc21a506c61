"""Utilities that know neither configs nor models."""
from .complexity import count_madds, count_parameters

__all__ = ['count_madds', 'count_parameters']
