# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compute the features of a frozen encoder once for each image."""
import hashlib
import math
from typing import NamedTuple

import torch
from mmcv.transforms import RandomFlip
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils.data import default_collate

from ..datasets.image_cache import available_memory
from ..utils.modules import unwrap

#: Images that a CPU encodes at once have so many pixels: 16 of 224x224.
_PIXELS_AT_ONCE = 16 * 224**2
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d,
                nn.SyncBatchNorm)


@HOOKS.register_module()
class FrozenFeaturesHook(Hook):
    """Cache the features of a frozen encoder, keyed by the input pixels.

    Without random crops, an image has the same pixels in every epoch, or two
    versions if it is flipped. Nothing is cached if the encoder learns, draws
    random numbers or normalizes by the batch. Features may differ in the last
    bits, since kernels depend on the batch size.

    Args:
        max_gib (float, optional): Memory for features in GiB, on the
            encoder's device. Defaults to half of what is free.
        half (bool): Whether to round features to float16, which halves their
            memory. Defaults to False.
    """

    def __init__(self, max_gib: float | None = None, half: bool = False
                 ) -> None:
        self.max_gib = max_gib
        self.half = half
        self.cache: FeatureCache | None = None
        self._free = 0

    def before_train(self, runner: Runner) -> None:
        """Start caching if the encoder is frozen."""
        backbone = getattr(unwrap(runner.model), 'backbone', None)
        if backbone is None or any(
                weight.requires_grad for weight in backbone.parameters()):
            runner.logger.info('the encoder learns: its features are not '
                               'cached')
            return
        self._free = free_memory(next(backbone.parameters()).device)
        limit = (self._free // 2 if self.max_gib is None
                 else int(self.max_gib * 2**30))
        self.cache = FeatureCache(backbone, limit, self.half)
        self._is_reported = False

    def after_train_iter(self, runner: Runner, batch_idx: int,
                         data_batch=None, outputs: dict | None = None
                         ) -> None:
        """Report the memory, once an image's is known."""
        if self.cache is None or self._is_reported:
            return
        self._is_reported = True
        images = _count_versions(runner)
        needed = images * self.cache.image_bytes
        text = (f'features of {images} images: {needed / 2**20:,.0f} MiB '
                f'needed, {self._free / 2**20:,.0f} MiB free')
        if needed > self.cache.max_bytes:
            share = self.cache.max_bytes / needed
            text += f'; {share:.0%} are kept, the others computed anew'
        runner.logger.info(text)

    def after_train(self, runner: Runner) -> None:
        """Drop the cache."""
        if self.cache is not None:
            self.cache.remove()


def free_memory(device: torch.device) -> int:
    """Bytes that can be allocated on a device."""
    if device.type == 'cuda':
        return torch.cuda.mem_get_info(device)[0]
    return available_memory()


def _count_versions(runner: Runner) -> int:
    """Images of training and validation, and mirrored ones."""
    dataset = runner.train_dataloader.dataset
    steps = getattr(getattr(dataset, 'pipeline', None), 'transforms', ())
    flips = any(isinstance(step, RandomFlip) for step in steps)
    images = len(dataset) * (2 if flips else 1)
    if runner.val_loop is not None:
        images += len(runner.val_dataloader.dataset)
    return images


class Batch(NamedTuple):
    """A batch of images, some of them cached.

    Attributes:
        images (Tensor): (B, 3, H, W).
        keys (list[tuple]): Hashes of the images.
        rows (list[int]): Rows of images that the backbone is called with.
        computed (dict[int, list[Tensor]]): Features by row.
        random_states (list[bytes]): See :func:`_random_states`.
    """
    images: Tensor
    keys: list[tuple]
    rows: list[int]
    computed: dict[int, list[Tensor]]
    random_states: list[bytes]


class FeatureCache:
    """Forward hooks that let a backbone compute only images not cached.

    If all images of a batch are cached, it gets an empty batch, or the first
    image if it cannot handle that. The cache is emptied when a weight or
    buffer was written.

    Args:
        backbone (nn.Module): Frozen; takes (B, 3, H, W) and returns a tensor
            or a tuple of tensors whose first dimension is B.
        max_bytes (int): Memory for features.
        half (bool): Whether to round them to float16. Defaults to False.

    Attributes:
        image_bytes (int): Memory for the features of an image; 0 before the
            first one.
    """

    def __init__(self, backbone: nn.Module, max_bytes: int,
                 half: bool = False) -> None:
        self.max_bytes = max_bytes
        self.half = half
        self.image_bytes = 0
        self.kept: dict[tuple, list[Tensor]] = {}
        self.bytes = 0
        self.state: list[tuple[int, int]] = []
        self.batch: Batch | None = None
        self._least: list[int] | None = None  # rows of a cached batch
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
        keys = _keys(images, backbone)
        new = [row for row, key in enumerate(keys) if key not in self.kept]
        parts = _split(new, images)
        if not parts:  # all images are cached
            if self._least is None:
                self._least = [] if _takes_no_images(backbone, images) else [0]
            parts = [self._least]
        *others, rows = parts
        self.batch = batch = Batch(images, keys, rows, {},
                                   _random_states(images))
        for part in others:
            self._add(batch, part, backbone.forward(images[part]))
        return None if len(rows) == len(keys) else (images[rows], )

    def _complete(self, backbone: nn.Module, args: tuple, outputs):
        """Add the features of cached images."""
        batch, self.batch = self.batch, None
        if batch is None:
            return None
        is_whole = len(batch.rows) == len(batch.keys)
        if _random_states(batch.images) != batch.random_states:  # dropout
            return None if is_whole else backbone.forward(batch.images)
        levels = self._add(batch, batch.rows, outputs)
        if levels is None:
            self.remove()
            return None if is_whole else backbone.forward(batch.images)
        for row, features in batch.computed.items():
            self._keep(batch.keys[row], features)
        if is_whole and not self.half:
            return None
        features = []
        for row, key in enumerate(batch.keys):
            features.append(self.kept[key] if key in self.kept
                            else batch.computed[row])
        # A run that is resumed computes anew what this one rounded before.
        stacked = [level.to(levels[0].dtype)
                   for level in default_collate(features)]
        return stacked[0] if isinstance(outputs, Tensor) else tuple(stacked)

    def _add(self, batch: Batch, rows: list[int], outputs
             ) -> tuple[Tensor, ...] | None:
        """Split outputs by image; None if that is impossible."""
        levels = _levels(outputs, len(rows))
        if levels is None:
            return None
        rounded = levels
        if self.half:
            rounded = [_to_half(level) for level in levels]
        for number, row in enumerate(rows):
            batch.computed[row] = [level[number] for level in rounded]
        return levels

    def _keep(self, key: tuple, features: list[Tensor]) -> None:
        size = self.image_bytes = sum(level.nbytes for level in features)
        if key not in self.kept and self.bytes + size <= self.max_bytes:
            # A view would keep the whole batch.
            self.kept[key] = [level.detach().clone() for level in features]
            self.bytes += size


def _levels(outputs, images: int) -> tuple[Tensor, ...] | None:
    """Outputs as a tuple; None unless each has a row for each image."""
    levels = (outputs, ) if isinstance(outputs, Tensor) else outputs
    if not isinstance(levels, tuple) or any(
            len(level) != images for level in levels):
        return None
    return levels


def _takes_no_images(backbone: nn.Module, images: Tensor) -> bool:
    """Whether a backbone returns a map without rows for each level."""
    try:
        outputs = backbone.forward(images[:0])
    except Exception:  # such as that of reshape(0, -1)
        return False
    return _levels(outputs, 0) is not None


def _split(rows: list[int], images: Tensor) -> list[list[int]]:
    """Split rows into batches that need little memory, except on GPUs."""
    number = len(rows)
    if images.device.type == 'cpu':
        number = max(1, _PIXELS_AT_ONCE // math.prod(images.shape[2:]))
    return [rows[i:i + number] for i in range(0, len(rows), number)]


def _depends_on_batch(module: nn.Module) -> bool:
    return isinstance(module, _BATCH_NORMS) and (
        module.training or module.running_mean is None)


def _to_half(level: Tensor) -> Tensor:
    limit = torch.finfo(torch.float16).max
    return level.clamp(-limit, limit).half()


def _random_states(images: Tensor) -> list[bytes]:
    """State of the random numbers on the CPU and the images' device."""
    states = [torch.get_rng_state().numpy().tobytes()]
    if images.device.type != 'cpu':
        state = torch.get_device_module(images.device).get_rng_state()
        states.append(state.numpy().tobytes())
    return states


def _keys(images: Tensor, backbone: nn.Module) -> list[tuple]:
    """Hash the pixels of each image.

    Keys include the precision and whether each layer is in training mode:
    once dropout is switched on, all images are computed anew.
    """
    kind = images.device.type
    cast = None
    if torch.is_autocast_enabled(kind):
        cast = torch.get_autocast_dtype(kind)
    modes = tuple(module.training for module in backbone.modules())
    state = images.shape[1:], images.dtype, cast, modes
    keys = []
    for image in images.detach().contiguous().view(torch.uint8).cpu().numpy():
        digest = hashlib.blake2b(image.tobytes(), digest_size=16).digest()
        keys.append((digest, state))
    return keys
