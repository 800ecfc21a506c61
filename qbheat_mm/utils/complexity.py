"""Size of a network: parameters and multiply-adds (MAdds)."""
import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


def count_parameters(module: nn.Module, exclude: tuple[str, ...] = ()) -> int:
    """Number of parameters, trained or frozen; shared ones count once.

    Args:
        module (nn.Module): The network.
        exclude (tuple[str, ...]): Prefixes of names that do not count, e.g.
            ``('backbone.', )``. Defaults to none.
    """
    return sum(
        param.numel() for name, param in module.named_parameters()
        if not name.startswith(exclude))


def flop_counter() -> FlopCounterMode:
    """PyTorch's counter, which has no formula for the CPU's attention."""
    cpu_attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return FlopCounterMode(
        display=False, custom_mapping={cpu_attention: _attention_flops})


def count_madds(module: nn.Module, *inputs: Any) -> int:
    """Multiply-adds of one call in eval mode.

    Convolutions, linear layers and matrix products count, attention (``QK``
    and ``AV``) among them; norms, activations, interpolation, additions and
    products element by element do not, as in the paper's figures; nor does
    what a module multiplies by zeros on purpose, of which it tells the number
    by a method ``madds_with_zeros`` of its inputs.

    Args:
        module (nn.Module): The network; it is not changed.
        *inputs: Of ``module.forward``. With tensors on the meta device
            nothing is computed, and the count takes no time at any size.

    Returns:
        int: MAdds (half of the FLOPs that PyTorch counts).
    """
    tensors = torch.utils._pytree.tree_leaves(inputs)
    is_meta = any(isinstance(t, Tensor) and t.is_meta for t in tensors)
    module = copy.deepcopy(module).requires_grad_(False)
    module.eval()  # which of some backbones returns nothing
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


def _attention_flops(query: torch.Size, key: torch.Size, value: torch.Size,
                     *args, **kwargs) -> int:
    """FLOPs of attention, from (B, heads, N or M, width) each."""
    batch, heads, num_queries, width = query
    num_keys, value_width = value[-2:]
    return 2 * batch * heads * num_queries * num_keys * (width + value_width)
