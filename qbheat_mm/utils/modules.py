# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Unwrap models, switch to eval mode temporarily, compare outputs."""
import math
from collections.abc import Iterator
from contextlib import contextmanager

from mmengine.model import BaseTTAModel, is_model_wrapper
from torch import Tensor, nn


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


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """Largest difference of two tensors over the largest expected value.

    Returns:
        float: inf if the shapes differ or a value is NaN.
    """
    if found.shape != expected.shape:
        return math.inf
    found, expected = found.double(), expected.double()
    largest = expected.abs().max().clamp(min=1e-12)
    difference = ((found - expected).abs().max() / largest).item()
    return math.inf if math.isnan(difference) else difference
