# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Size of a network: parameters and multiply-adds (MAdds)."""
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

#: Operators, views apart, that launch no kernel.
_WITHOUT_KERNEL = {
    'empty', 'empty_like', 'empty_strided', 'new_empty', 'new_empty_strided',
    '_unsafe_view', 'set_', 'is_pinned', 'record_stream',
    '_local_scalar_dense'}


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


class Operators(Counter):
    """Calls by operator; ``moved`` are the bytes they read and write."""

    moved = 0


@contextmanager
def operator_counter() -> Iterator[Operators]:
    """Count dispatched operators by name, without views and allocations.

    A stand-in for the kernel launches on a GPU, which are about 1.15 times
    as many.
    """
    counts = Operators()

    class Count(TorchDispatchMode):

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            name = func.overloadpacket.__name__
            if not func.is_view and name not in _WITHOUT_KERNEL:
                counts[name] += 1
                counts.moved += _count_bytes((args, out))
            return out

    with Count():
        yield counts


def _count_bytes(value: Any) -> int:
    """Bytes of tensors in nested sequences, once where they are expanded."""
    if isinstance(value, Tensor):
        return min(value.nbytes, value.untyped_storage().nbytes())
    return sum(map(_count_bytes, value)) if isinstance(
        value, list | tuple) else 0


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


def kept_bytes(module: nn.Module, step: Callable[[], Any]) -> int:
    """Bytes that autograd keeps of a forward step, parameters apart."""
    storages = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # an output would keep its own graph alive

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        step()
    for parameter in module.parameters():
        storages.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(storages.values())
