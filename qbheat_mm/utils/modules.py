# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Unwrap models, switch modes, cast weights, compare outputs."""
import math
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from weakref import WeakKeyDictionary

import torch
from mmengine.model import BaseTTAModel, is_model_wrapper
from torch import Tensor, nn
from torch.func import functional_call


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


def _is_autocast_on(x: Tensor) -> bool:
    device = x.device.type  # 'meta' has no autocast
    return (torch.amp.is_autocast_available(device)
            and torch.is_autocast_enabled(device))


def outside_autocast(x: Tensor) -> AbstractContextManager:
    """Leave autocast on the device of ``x``, if it is on."""
    if not _is_autocast_on(x):
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def cast_at_once(module: nn.Module, kind: type[nn.Module],
                 *inputs: Tensor):
    """Run a module; under autocast, cast its weights in one operation.

    Autocast casts each weight, and its gradient, by itself.

    Args:
        module (nn.Module): The module.
        kind (type): Layers whose weights are cast. None of them may run
            outside of autocast.
        *inputs (Tensor): Inputs of the module.

    Returns:
        Any: What the module returns.
    """
    if not _is_autocast_on(inputs[0]):
        return module(*inputs)
    weights = {
        f'{name}.{key}': weight for name, layer in module.named_modules()
        if isinstance(layer, kind)
        for key, weight in layer.named_parameters(recurse=False)}
    if not weights:
        return module(*inputs)
    flat = torch.cat([weight.flatten() for weight in weights.values()]).to(
        torch.get_autocast_dtype(inputs[0].device.type))
    parts = flat.split([weight.numel() for weight in weights.values()])
    cast = {name: part.view_as(weight)
            for (name, weight), part in zip(weights.items(), parts)}
    return functional_call(module, cast, inputs, tie_weights=False)
