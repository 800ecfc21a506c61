# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Size of a network: parameters and multiply-adds (MAdds)."""
import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count


def count_parameters(module: nn.Module) -> int:
    """Number of parameters, trained or frozen, shared ones once."""
    return sum(param.numel() for param in module.parameters())


def flop_counter() -> FlopCounterMode:
    """PyTorch's counter, with the CPU's attention kernel added.

    The kernel has no public name, and the counter ignores it.
    """
    cpu_attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return FlopCounterMode(display=False, custom_mapping={
        cpu_attention: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)})


def count_madds(module: nn.Module, *inputs: Any) -> int:
    """Multiply-adds of one call in eval mode.

    As in the paper, convolutions, linear layers and matrix products count,
    including those of attention, but not norms, activations, interpolation
    and elementwise operations. Products with zeros that a module adds for
    speed are subtracted, see its method ``madds_with_zeros``.

    Args:
        module (nn.Module): The network, left unchanged.
        *inputs: Inputs of ``module.forward``. Tensors on the meta device
            need no computation.

    Returns:
        int: MAdds (half of the FLOPs that PyTorch counts).
    """
    is_meta = any(isinstance(each, Tensor) and each.is_meta
                  for each in inputs)
    module = copy.deepcopy(module).requires_grad_(False)
    module.eval()  # returns None for some backbones
    if is_meta:
        module.to('meta')
    counter = flop_counter()
    zeros = []
    for part in module.modules():
        if hasattr(part, 'madds_with_zeros'):
            part.register_forward_hook(
                lambda part, args, _: zeros.append(
                    part.madds_with_zeros(*args)))
    with counter, torch.no_grad():
        module(*inputs)
    return counter.get_total_flops() // 2 - sum(zeros)
