# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Unwrap models; switch to eval mode temporarily."""
from collections.abc import Iterator
from contextlib import contextmanager

from mmengine.model import BaseTTAModel, is_model_wrapper
from torch import nn


def unwrap(model: nn.Module) -> nn.Module:
    """Remove wrappers for distributed training and ``--tta``."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """Switch a model to eval mode and restore the mode of each module.

    Unlike ``model.train()``, this keeps frozen parts in eval mode.
    """
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield model
    finally:
        for module, mode in training.items():
            module.training = mode
