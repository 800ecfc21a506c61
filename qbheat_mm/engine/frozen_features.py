# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compute the features of a frozen encoder once for each image."""
import hashlib
from typing import NamedTuple

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils.data import default_collate

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


class Batch(NamedTuple):
    """A batch of images, some of them cached.

    Attributes:
        images (Tensor): (B, 3, H, W).
        keys (list[tuple]): Hashes of the images.
        new (list[int]): Rows of images that are not cached.
        random_states (list[bytes]): See :func:`_random_states`.
    """
    images: Tensor
    keys: list[tuple]
    new: list[int]
    random_states: list[bytes]


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
        self.kept: dict[tuple, list[Tensor]] = {}
        self.bytes = 0
        self.state: list[tuple[int, int]] = []
        self.batch: Batch | None = None
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
        new = [row for row, key in enumerate(keys) if key not in self.kept]
        self.batch = Batch(images, keys, new, _random_states(images))
        return None if len(new) == len(keys) else (images[new or [0]], )

    def _complete(self, backbone: nn.Module, args: tuple, outputs):
        """Add the features of cached images."""
        batch, self.batch = self.batch, None
        if batch is None:
            return None
        is_new = len(batch.new) == len(batch.keys)
        if _random_states(batch.images) != batch.random_states:  # dropout
            return None if is_new else backbone.forward(batch.images)
        levels = (outputs, ) if isinstance(outputs, Tensor) else outputs
        if not isinstance(levels, tuple) or any(
                len(level) != len(args[0]) for level in levels):
            self.remove()  # before anything was cached
            return None
        computed: dict[int, list[Tensor]] = {}
        for number, row in enumerate(batch.new):
            computed[row] = [level[number] for level in levels]
            self._keep(batch.keys[row], computed[row])
        if is_new:
            return None
        features = [computed[row] if row in computed else self.kept[key]
                    for row, key in enumerate(batch.keys)]
        stacked = default_collate(features)
        return stacked[0] if isinstance(outputs, Tensor) else tuple(stacked)

    def _keep(self, key: tuple, features: list[Tensor]) -> None:
        size = sum(level.nbytes for level in features)
        if key not in self.kept and self.bytes + size <= self.max_bytes:
            # A view would keep the whole batch.
            self.kept[key] = [level.detach().clone() for level in features]
            self.bytes += size


def _depends_on_batch(module: nn.Module) -> bool:
    return isinstance(module, _BATCH_NORMS) and (
        module.training or module.running_mean is None)


def _random_states(images: Tensor) -> list[bytes]:
    """State of the random numbers on the CPU and the images' device."""
    states = [torch.get_rng_state().numpy().tobytes()]
    if images.device.type != 'cpu':
        state = torch.get_device_module(images.device).get_rng_state()
        states.append(state.numpy().tobytes())
    return states


def _keys(images: Tensor) -> list[tuple]:
    """Hash the pixels of each image; precision is part of the key."""
    kind = images.device.type
    cast = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)
    state = images.shape[1:], images.dtype, cast
    pixels = images.detach().contiguous().view(torch.uint8).cpu().numpy()
    return [(hashlib.blake2b(image.tobytes(), digest_size=16).digest(), state)
            for image in pixels]
