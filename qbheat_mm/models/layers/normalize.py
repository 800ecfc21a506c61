# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Deprecated: use :mod:`qbheat_mm.trained`."""
import sys
import warnings

warnings.warn(
    'qbheat_mm.models.layers.normalize is deprecated and will be removed in '
    '0.5: import Normalization and Normalize from qbheat_mm.trained',
    DeprecationWarning, stacklevel=2)

# Models import no package above them; `import qbheat_mm` has loaded this one.
_moved = sys.modules['qbheat_mm.trained']
Normalization, Normalize = _moved.Normalization, _moved.Normalize
