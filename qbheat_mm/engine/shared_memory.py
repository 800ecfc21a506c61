# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Warn of shared memory that workers would fill."""
import logging
import os
import shutil

#: Where Linux keeps what processes share, and what is little for batches: two
#: workers fetch 200 MB of 16 images of 1333 x 800. Docker gives 64 MB.
FOLDER, LITTLE = '/dev/shm', 2**28


def warn_of_little_shared_memory(logger: logging.Logger) -> None:
    """Warn of less than 256 MB: torch's workers stop, and the run waits."""
    if not os.path.isdir(FOLDER):
        return
    size = shutil.disk_usage(FOLDER).total
    if size < LITTLE:
        logger.warning(
            f'{FOLDER} has {size / 2**20:.0f} MB. If workers fill it ("unable '
            'to allocate shared memory"), the run waits forever: start the '
            'container with --shm-size=2g, or set '
            'train_dataloader.num_workers=0 (val_dataloader, too)')
