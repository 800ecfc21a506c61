# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Count what a training step costs: operators, and bytes kept by autograd."""
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

#: Operators, views apart, that launch no kernel.
_WITHOUT_KERNEL = {
    'empty', 'empty_like', 'empty_strided', 'new_empty', 'new_empty_strided',
    '_unsafe_view', 'set_', 'is_pinned', 'record_stream',
    '_local_scalar_dense'}


@contextmanager
def operator_counter() -> Iterator[Counter]:
    """Count dispatched operators by name, without views and allocations.

    A stand-in for the kernel launches on a GPU, which are about 1.15 times
    as many.
    """
    counts = Counter()

    class Count(TorchDispatchMode):

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = func.overloadpacket.__name__
            if not func.is_view and name not in _WITHOUT_KERNEL:
                counts[name] += 1
            return func(*args, **(kwargs or {}))

    with Count():
        yield counts


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
