# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Studies: arms that differ in one thing, seeds in pairs, rows that stay."""
from .arms import ACCURACY, DETECTION, Arm, Probe, Run, Study
from .results import Results
from .statistics import Comparison, compare

__all__ = [
    'ACCURACY', 'DETECTION', 'Arm', 'Comparison', 'Probe', 'Results', 'Run',
    'Study', 'compare'
]
