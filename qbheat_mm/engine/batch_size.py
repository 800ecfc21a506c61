# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Lower a batch size that the data don't fill."""
from collections.abc import Callable
from functools import partial

from mmengine.dataset import InfiniteSampler
from torch import nn
from torch.utils.data import Sampler

from ..errors import UserError


def batch_fitter(model: nn.Module,
                 processes: int) -> Callable[[Sampler, int], int]:
    """A function of a sampler and a batch size that lowers the latter."""
    preprocessor = type(getattr(model, 'data_preprocessor', None))
    is_detector = preprocessor.__name__.startswith('Det')
    # Classifiers and pre-training have batch norm on pooled features.
    return partial(fitting_batch, processes=processes,
                   minimum=1 if is_detector else 2,
                   queue=getattr(model, 'queue_len', 0))


def fitting_batch(sampler: Sampler, batch: int, processes: int,
                  minimum: int = 1, queue: int = 0) -> int:
    """Lower a process's batch size to what the images of its sampler fill.

    MoCo's ``queue`` must be a multiple of the images of all processes in a
    step; 0 stands for none.

    Raises:
        UserError: If a process has fewer than ``minimum`` images, or no
            batch size fits ``queue``.
    """
    share = len(sampler)
    if share < minimum:
        raise UserError(
            f'each of {processes} process(es) gets {share} images of '
            f'train_dataloader.dataset and needs at least {minimum}')
    if share < batch and not isinstance(sampler, InfiniteSampler):
        batch = share
        while queue and batch > minimum and queue % (batch * processes):
            batch -= 1
    if queue and queue % (batch * processes):
        raise UserError(
            f'model.queue_len={queue} is not a multiple of the '
            f'{batch * processes} images of a step '
            f'(train_dataloader.batch_size={batch})')
    return batch
