# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compute the features of a frozen encoder once for each image."""
import hashlib

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor, nn

from ..utils.modules import unwrap

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d,
                nn.SyncBatchNorm)


@HOOKS.register_module()
class FrozenFeaturesHook(Hook):
    """Cache the features of a frozen encoder, keyed by the input pixels.

    A probe without random crops sees the same pixels in every epoch. Nothing
    is cached if the encoder learns, draws random numbers or normalizes by the
    batch. Features may differ in the last bits, since kernels depend on the
    batch size.

    Args:
        max_gib (float): Memory for features in GiB, on the encoder's device.
            Defaults to 4.
    """

    def __init__(self, max_gib: float = 4.) -> None:
        self.max_bytes = int(max_gib * 2**30)
        self.cache: FeatureCache | None = None

    def before_train(self, runner: Runner) -> None:
        """Start caching if the encoder is frozen."""
        backbone = getattr(unwrap(runner.model), 'backbone', None)
        if backbone is None or any(
                weight.requires_grad for weight in backbone.parameters()):
            runner.logger.info('the encoder learns: its features are not '
                               'cached')
            return
        self.cache = FeatureCache(backbone, self.max_bytes)

    def after_train(self, runner: Runner) -> None:
        """Drop the cache."""
        if self.cache is not None:
            self.cache.remove()


class FeatureCache:
    """Forward hooks that let a backbone compute only images not cached.

    For a completely cached batch, it still computes the first image. The
    cache is emptied when a weight or buffer was written.

    Args:
        backbone (nn.Module): Frozen; takes (B, 3, H, W) and returns a tensor
            or a tuple of tensors whose first dimension is B.
        max_bytes (int): Memory for features.
    """

    def __init__(self, backbone: nn.Module, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.kept: dict[tuple, tuple[Tensor, ...]] = {}
        self.bytes = 0
        self.state: list[tuple[int, int]] = []
        self.batch: tuple[Tensor, list, list, list] | None = None
        self.handles = [backbone.register_forward_pre_hook(self._select),
                        backbone.register_forward_hook(self._complete)]

    def remove(self) -> None:
        """Detach from the backbone and free the features."""
        for handle in self.handles:
            handle.remove()
        self._clear()

    def _clear(self) -> None:
        self.kept.clear()
        self.bytes = 0

    def _select(self, backbone: nn.Module, args: tuple) -> tuple | None:
        """Select the images of (B, 3, H, W) that are not cached."""
        self.batch = None
        if len(args) != 1 or any(map(_depends_on_batch, backbone.modules())):
            return None
        state = [(tensor.data_ptr(), tensor._version) for tensor in (
            *backbone.parameters(), *backbone.buffers())]
        if state != self.state:
            self.state = state
            self._clear()
        images, = args
        keys = _keys(images)
        rows = [i for i, key in enumerate(keys) if key not in self.kept]
        self.batch = images, keys, rows, _random_states(images)
        return None if len(rows) == len(keys) else (images[rows or [0]], )

    def _complete(self, backbone: nn.Module, args: tuple, outputs):
        """Add the features of cached images."""
        if self.batch is None:
            return None
        images, keys, rows, random_states = self.batch
        self.batch, whole = None, len(rows) == len(keys)
        if _random_states(images) != random_states:  # such as dropout
            return None if whole else backbone.forward(images)
        parts = (outputs, ) if isinstance(outputs, Tensor) else outputs
        if not isinstance(parts, tuple) or any(
                len(part) != len(args[0]) for part in parts):
            self.remove()  # before anything was cached
            return None
        new = {row: tuple(part[i] for part in parts)
               for i, row in enumerate(rows)}
        for row, features in new.items():
            self._keep(keys[row], features)
        if whole:
            return None
        stacked = tuple(map(torch.stack, zip(*(
            new[i] if i in new else self.kept[key]
            for i, key in enumerate(keys)))))
        return stacked[0] if isinstance(outputs, Tensor) else stacked

    def _keep(self, key: tuple, features: tuple[Tensor, ...]) -> None:
        size = sum(part.nbytes for part in features)
        if key not in self.kept and self.bytes + size <= self.max_bytes:
            # A view would keep the whole batch.
            self.kept[key] = tuple(part.detach().clone() for part in features)
            self.bytes += size


def _depends_on_batch(module: nn.Module) -> bool:
    return isinstance(module, _BATCH_NORMS) and (
        module.training or module.running_mean is None)


def _random_states(images: Tensor) -> list[bytes]:
    """State of the random numbers on the CPU and the images' device."""
    states = [torch.get_rng_state()]
    if images.device.type != 'cpu':
        states.append(torch.get_device_module(images.device).get_rng_state())
    return [bytes(state.numpy()) for state in states]


def _keys(images: Tensor) -> list[tuple]:
    """Hash the pixels of each image; precision is part of the key."""
    kind = images.device.type
    cast = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)
    state = images.shape[1:], images.dtype, cast
    pixels = images.detach().contiguous().view(torch.uint8).cpu().numpy()
    return [(hashlib.blake2b(image.tobytes(), digest_size=16).digest(), state)
            for image in pixels]
