# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders that QB-Heat is not for: those whose pixels attend to pixels."""
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from ...errors import UserError
from ..backbones import MobileFormer

#: Classes of mmpretrain, mmcv and torch that attend among pixels, some of
#: them in windows, which :func:`grows_with_pairs` does not see.
_KNOWN = {
    'Attention', 'AttentionWithBias', 'AttentionWithRoPE', 'BEiTAttention',
    'DaViTWindowMSA', 'LeAttention', 'LocallyGroupedSelfAttention',
    'MultiheadAttention', 'MultiScaleAttention', 'ShiftWindowMSA',
    'WindowAttention', 'WindowMSA', 'WindowMSAV2', 'XCA'
}
_PACKAGES = ('mmpretrain', 'mmcv', 'torch')
#: Sides of the images of which the computation is compared.
_SIDES = (512, 1024)


def refuse_pixel_attention(backbone: nn.Module) -> None:
    """Refuse an encoder whose pixels attend to pixels.

    It would never see tokens beyond a quarter in pre-training, but all of
    them later (the limitation that the paper states).

    Raises:
        UserError: If the backbone has a part that is known to do so, or its
            computation grows with the pairs of pixels.
    """
    if isinstance(backbone, MobileFormer):  # few tokens, in linear time
        return
    found = _known_attention(backbone)
    if found is None and not grows_with_pairs(backbone):
        return
    reason = found or 'its computation grows with the square of their number'
    raise UserError(
        f'{type(backbone).__name__} attends among pixels ({reason}) and '
        'cannot be the encoder of QB-Heat: it would never see tokens beyond '
        'a quarter in pre-training, but all of them later (the limitation '
        'that the paper states). Use a convolutional backbone, such as '
        'MobileFormer, ResNet or ConvNeXt, or, to try it all the same, '
        'model.allow_pixel_attention=True')


def _known_attention(backbone: nn.Module) -> str | None:
    """Name of a part of the toolboxes that attends among pixels."""
    for module in backbone.modules():
        for cls in type(module).__mro__:
            if (cls.__name__ in _KNOWN
                    and cls.__module__.split('.')[0] in _PACKAGES):
                return type(module).__name__
    return None


def grows_with_pairs(backbone: nn.Module) -> bool:
    """Whether some step of a network grows faster than the pixels do.

    Each map of a convolutional network, gates and global pooling included,
    grows at most in proportion to the image. A map of all pairs of pixels
    grows with its square, whatever its class is called.

    Args:
        backbone (nn.Module): Its forward pass is run without computing
            anything. False where it cannot be.
    """
    try:
        small, large = (_sizes_of_steps(backbone, side) for side in _SIDES)
    # Other networks than torch's own cannot run without values.
    except Exception:
        return False
    pixels = (_SIDES[1] / _SIDES[0])**2
    return len(small) == len(large) and any(
        after > 2 * pixels * before for before, after in zip(small, large))


def _sizes_of_steps(backbone: nn.Module, side: int) -> list[int]:
    """Sizes of what each function of torch gives, for an image."""
    tensors = {name: tensor.to('meta') for name, tensor in (
        *backbone.named_parameters(), *backbone.named_buffers())}
    image = torch.zeros(1, 3, side, side, device='meta')
    mode = backbone.training
    backbone.eval()
    try:
        with _Sizes() as steps:
            functional_call(backbone, tensors, (image, ))
    finally:
        backbone.train(mode)
    return steps.sizes


class _Sizes(TorchFunctionMode):
    """Note the size of what each function of torch gives."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is nn.functional.scaled_dot_product_attention:
            self.sizes.append(_pairs(args, kwargs or {}))
        elif isinstance(out, Tensor):
            self.sizes.append(out.numel())
        return out


def _pairs(args: Sequence, kwargs: dict) -> int:
    """Size of the map of attention, which a fused kernel never writes."""
    query = kwargs.get('query', args[0] if args else None)
    key = kwargs.get('key', args[1] if len(args) > 1 else None)
    return query.shape[:-1].numel() * key.shape[-2]
