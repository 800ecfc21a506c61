# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Batches that a small data set fills."""
from mmengine.dataset import InfiniteSampler
from torch.utils.data import DataLoader

from ...errors import UserError


def fitting_batch(loader: DataLoader,
                  batch_size: int,
                  processes: int,
                  least: int = 1,
                  divides: int | None = None) -> int:
    """The batch that the images of one process fill.

    Args:
        loader (DataLoader): Built with ``batch_size``.
        batch_size (int): Images a step of one process, as set.
        processes (int): Of the run.
        least (int): Images that a step of one process needs, two for batch
            norm of pooled features. Defaults to 1.
        divides (int, optional): What the images of a step of all processes
            must divide, as the length of a queue.

    Returns:
        int: ``batch_size``, or less where the images are fewer.

    Raises:
        UserError: If there are fewer images than ``least``.
    """
    images = len(loader.dataset)
    if isinstance(loader.sampler, InfiniteSampler) and images >= least:
        return batch_size
    share = len(loader.sampler) if images else 0
    if share < least:
        raise too_few(images, processes, least)
    if batch_size <= share:
        return batch_size
    while divides and share > 1 and divides % (share * processes):
        share -= 1
    return share


def too_few(images: int, processes: int, least: int) -> UserError:
    """What to say of a training set that no step can be made of.

    Args:
        images (int): Of the set.
        processes (int): Of the run.
        least (int): Images that a step of one process needs.
    """
    found = f'{images} image{"" if images == 1 else "s"}'
    if images < max(least, 1):
        return UserError(
            f'the training set (train_dataloader.dataset) has {found}, and '
            f'training needs at least {max(least, 1)}: add images, or name '
            'another folder or annotation file')
    return UserError(
        f'the training set (train_dataloader.dataset) has {found} for '
        f'{processes} processes, and each needs at least {least}: start at '
        f'most {images // least}')
