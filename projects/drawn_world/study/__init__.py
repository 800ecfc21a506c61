# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Studies: arms that differ in one thing, seeds in pairs, rows that stay."""
from .comparison import Comparison, compare
from .design import ACCURACY, DETECTION, Arm, Probe, Run, Study
from .results import Results

__all__ = [
    'ACCURACY', 'DETECTION', 'Arm', 'Comparison', 'Probe', 'Results', 'Run',
    'Study', 'compare'
]
