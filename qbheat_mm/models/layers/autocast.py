# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Leave autocast, or cast all weights of a module at once."""
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.func import functional_call


def _is_autocast_on(x: Tensor) -> bool:
    device = x.device.type  # 'meta' has no autocast
    return device != 'meta' and torch.is_autocast_enabled(device)


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
    weights: dict[str, Tensor] = {}
    for name, layer in module.named_modules():
        if isinstance(layer, kind):
            weights.update(layer.named_parameters(name, recurse=False))
    if not weights:
        return module(*inputs)
    flat = torch.cat([weight.flatten() for weight in weights.values()]).to(
        torch.get_autocast_dtype(inputs[0].device.type))
    parts = flat.split([weight.numel() for weight in weights.values()])
    cast = {name: part.view_as(weight)
            for (name, weight), part in zip(weights.items(), parts)}
    return functional_call(module, cast, inputs, tie_weights=False)
