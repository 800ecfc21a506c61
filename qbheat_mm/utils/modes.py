# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Training and evaluation mode."""
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """Put a model in evaluation mode and each module back afterwards.

    ``model.train()`` would not do: frozen parts are in evaluation mode while
    the rest trains.
    """
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield model
    finally:
        for module, mode in training.items():
            module.training = mode
