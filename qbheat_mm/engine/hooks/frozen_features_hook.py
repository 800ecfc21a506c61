# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compute what a frozen encoder says of an image once."""
import hashlib

import torch
from mmcv.cnn.bricks import DropPath
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor, nn

from ...arguments import POSITIVE, checked
from ..wrapping import unwrap

#: Images after which features are kept no longer if almost none came again.
PATIENCE = 10000
#: The share of images that must have come again by then.
WORTHWHILE = 0.1
_DEPENDENT = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd,
              DropPath)


@HOOKS.register_module()
class FrozenFeaturesHook(Hook):
    """Keep the features of a frozen encoder, by the pixels that it saw.

    A probe on images that are not augmented, or only flipped, sees the same
    pixels in every epoch. Their features are computed when they come first,
    and looked up afterwards. An encoder that learns in part is left alone;
    so is one whose images hardly ever come again, as with random crops.

    Features of a batch that is in part known differ in the last bits from
    those of a whole one, since libraries compute batches of different sizes
    in different orders.

    Args:
        max_gib (float): Memory for features in GiB, on the device of the
            encoder; what comes when it is full is computed as ever.
            Defaults to 4.
    """

    @checked(max_gib=POSITIVE)
    def __init__(self, max_gib: float = 4.) -> None:
        self.max_bytes = int(max_gib * 2**30)
        self.encoder: _RememberingForward | None = None

    def before_train(self, runner: Runner) -> None:
        """Begin to remember, if there is a frozen encoder."""
        model = unwrap(runner.model)
        backbone = getattr(model, 'backbone', None)
        if backbone is None or _learns(backbone):
            runner.logger.info('FrozenFeaturesHook: the encoder learns, so '
                               'its features are not kept')
            return
        self.encoder = _RememberingForward(backbone, self.max_bytes)
        backbone.forward = self.encoder

    def after_train(self, runner: Runner) -> None:
        """Forget, and say what it was good for."""
        if self.encoder is None:
            return
        del self.encoder.backbone.forward  # the class's own remains
        runner.logger.info(
            f'FrozenFeaturesHook: features of {self.encoder.found} of '
            f'{self.encoder.seen} images were looked up')
        self.encoder = None


def _learns(backbone: nn.Module) -> bool:
    """Whether any weight may change."""
    return any(weight.requires_grad for weight in backbone.parameters())


def _is_random(backbone: nn.Module) -> bool:
    """Whether features depend on more than the image: its batch, or luck."""
    return any(module.training for module in backbone.modules()
               if isinstance(module, _DEPENDENT))


class _RememberingForward:
    """Stands for ``backbone.forward``.

    Args:
        backbone (nn.Module): Frozen; takes (B, 3, H, W) and returns a tensor
            or a tuple of tensors whose first dimension is B.
        max_bytes (int): Of kept features.
    """

    def __init__(self, backbone: nn.Module, max_bytes: int) -> None:
        self.backbone = backbone
        self.compute = backbone.forward
        self.max_bytes = max_bytes
        self.kept: dict[tuple, tuple[Tensor, ...]] = {}
        self.is_single = False
        self.bytes = self.seen = self.found = 0
        self.is_off = False

    def __call__(self, images: Tensor, *args, **kwargs):
        """Features of (B, 3, H, W)."""
        if self.is_off or args or kwargs or _is_random(self.backbone):
            return self.compute(images, *args, **kwargs)
        keys = _keys(images)
        missing = [i for i, key in enumerate(keys) if key not in self.kept]
        self.seen += len(keys)
        self.found += len(keys) - len(missing)
        computed = None
        if missing:
            whole = len(missing) == len(keys)
            computed = self.compute(images if whole else images[missing])
            if not _is_by_image(computed, len(missing)):
                self._give_up()
                return computed if whole else self.compute(images)
        outputs = self._collect(keys, missing, computed)
        if self.seen >= PATIENCE and self.found < WORTHWHILE * self.seen:
            self._give_up()
        return outputs

    def _collect(self, keys: list, missing: list[int], computed):
        """Put known and computed features together, and keep the latter."""
        if missing:
            self.is_single = isinstance(computed, Tensor)
        parts = (computed, ) if self.is_single else computed
        new = {}
        for row, i in enumerate(missing):
            new[i] = tuple(part[row] for part in parts)
            self._keep(keys[i], new[i])
        if len(missing) == len(keys):
            return computed
        rows = [new[i] if i in new else self.kept[key]
                for i, key in enumerate(keys)]
        stacked = tuple(map(torch.stack, zip(*rows)))
        return stacked[0] if self.is_single else stacked

    def _keep(self, key: tuple, features: tuple[Tensor, ...]) -> None:
        size = sum(part.nbytes for part in features)
        if key not in self.kept and self.bytes + size <= self.max_bytes:
            # a copy: a row would keep its whole batch
            self.kept[key] = tuple(
                part.detach().clone() for part in features)
            self.bytes += size

    def _give_up(self) -> None:
        self.is_off = True
        self.kept.clear()
        self.bytes = 0


def _keys(images: Tensor) -> list[tuple]:
    """What tells images apart: pixels, their type and the precision."""
    kind = images.device.type
    cast = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)
    state = images.shape[1:], images.dtype, cast
    pixels = images.detach().contiguous().view(torch.uint8).cpu().numpy()
    return [(hashlib.blake2b(image.tobytes(), digest_size=16).digest(), state)
            for image in pixels]


def _is_by_image(outputs, count: int) -> bool:
    """Whether outputs are tensors, or a tuple of them, with a row an image."""
    parts = (outputs, ) if isinstance(outputs, Tensor) else outputs
    return isinstance(parts, tuple) and all(
        isinstance(part, Tensor) and part.dim() and len(part) == count
        for part in parts)
