# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Prepare what annotation tools export for training."""
from .prepare_boxes import prepare_boxes

__all__ = ['prepare_boxes']
