"""Utilities that know neither configs nor models."""
from .complexity import count_madds, count_parameters, flop_counter
from .profiling import time_by_kind
from .timing import time_in_turn

__all__ = ['count_madds', 'count_parameters', 'flop_counter', 'time_by_kind',
           'time_in_turn']
