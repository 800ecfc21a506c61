# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Arguments, configs and processes of the command-line tools."""
from .command_line import (
    add_cfg_options,
    add_common_arguments,
    add_device,
    count,
    device,
    folder,
    report_user_errors,
)
from .distributed import init_processes
from .settings import apply_common_arguments, read_config, require_file
from .test_time_augmentation import augment_at_test_time, draw_predictions

__all__ = [
    'add_cfg_options', 'add_common_arguments', 'add_device',
    'apply_common_arguments', 'augment_at_test_time', 'count', 'device',
    'draw_predictions', 'folder', 'init_processes', 'read_config',
    'report_user_errors', 'require_file'
]
