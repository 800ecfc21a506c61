# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Configs and processes of the command-line tools."""
from .distributed import init_processes
from .settings import apply_common_arguments, read_config, require_file
from .test_time_augmentation import augment_at_test_time, draw_predictions

__all__ = [
    'apply_common_arguments', 'augment_at_test_time', 'draw_predictions',
    'init_processes', 'read_config', 'require_file'
]
