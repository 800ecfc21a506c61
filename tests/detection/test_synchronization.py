# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A step does not wait for the GPU to describe the padding."""
import torch
from mmdet.models.layers import SinePositionalEncoding
from torch.utils._python_dispatch import TorchDispatchMode

from qbheat_mm.detection.layers.scale import make_scale


class Copies(TorchDispatchMode):
    """Records copies between devices."""

    def __init__(self):
        super().__init__()
        self.blocking = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.aten._to_copy.default and kwargs.get(
                'device') not in (None, args[0].device):
            self.blocking.append(not kwargs.get('non_blocking', False))
        return func(*args, **kwargs)


def test_the_padding_is_copied_without_waiting():
    x = torch.empty(2, 8, 4, 6, device='meta')
    encoding = SinePositionalEncoding(4, normalize=True)
    with Copies() as copies:
        scale = make_scale(x, [(4, 6), (3, 5)], encoding)
    assert scale.padding.device.type == scale.content.device.type == 'meta'
    assert copies.blocking and not any(copies.blocking)
