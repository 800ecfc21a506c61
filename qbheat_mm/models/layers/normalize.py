# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Deprecated: use :mod:`qbheat_mm.trained`."""
import importlib
import warnings

warnings.warn(
    'qbheat_mm.models.layers.normalize is deprecated and will be removed in '
    '0.5: import Normalization and Normalize from qbheat_mm.trained',
    DeprecationWarning, stacklevel=2)

# By name, since models may not import the packages above them.
_moved = importlib.import_module('qbheat_mm.trained.normalization')
Normalization = _moved.Normalization
Normalize = _moved.Normalize
