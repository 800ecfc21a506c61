# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Moved to :mod:`qbheat_mm.utils.settings`."""
from ..utils.settings import toolbox

__all__ = ['toolbox']
