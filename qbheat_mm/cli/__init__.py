# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the command-line tools share."""
from .arguments import (
    apply_common_arguments,
    find_checkpoint,
    require_file,
)
from .distributed import init_processes
from .test_time_augmentation import augment_at_test_time, draw_predictions

__all__ = [
    'apply_common_arguments', 'augment_at_test_time', 'draw_predictions',
    'find_checkpoint', 'init_processes', 'require_file'
]
