# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Unwrap models, switch modes, compare outputs."""
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from mmengine.model import BaseTTAModel, is_model_wrapper
from torch import Tensor, nn


def unwrap(model: nn.Module) -> nn.Module:
    """Remove wrappers for distributed training and ``--tta``."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model


_switching = threading.Lock()
#: How many blocks of :func:`evaluating` hold a module, and its mode before.
_held: WeakKeyDictionary[nn.Module, tuple[int, bool]] = WeakKeyDictionary()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """Switch a model to eval mode and restore the mode of each module.

    Unlike ``model.train()``, this keeps frozen parts in eval mode. Threads
    may share a model: the last one to leave restores the modes.
    """
    modules = list(model.modules())
    with _switching:
        for module in modules:
            number, training = _held.get(module, (0, module.training))
            _held[module] = number + 1, training
        model.eval()
    try:
        yield model
    finally:
        with _switching:
            for module in modules:
                _release(module)


def _release(module: nn.Module) -> None:
    """Restore a module's mode unless another block holds it."""
    number, training = _held.pop(module)
    if number > 1:
        _held[module] = number - 1, training
    else:
        module.training = training


def relative_difference(actual: Tensor, expected: Tensor) -> float:
    """Largest difference of two tensors over the largest expected value.

    Returns:
        float: inf if the shapes differ or a value is NaN.
    """
    if actual.shape != expected.shape:
        return math.inf
    actual, expected = actual.double(), expected.double()
    largest = expected.abs().max().clamp(min=1e-12)
    difference = ((actual - expected).abs().max() / largest).item()
    return math.inf if math.isnan(difference) else difference
