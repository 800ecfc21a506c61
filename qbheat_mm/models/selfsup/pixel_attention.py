# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Reject backbones with spatial self-attention."""
from torch import nn

from ...errors import UserError

#: Classes of mmpretrain, mmcv and torch that attend between pixels.
_ATTENTION = {
    'Attention', 'AttentionWithBias', 'AttentionWithRoPE', 'BEiTAttention',
    'DaViTWindowMSA', 'LeAttention', 'LocallyGroupedSelfAttention',
    'MultiheadAttention', 'MultiScaleAttention', 'ShiftWindowMSA',
    'WindowAttention', 'WindowMSA', 'WindowMSAV2', 'XCA'
}
_PACKAGES = {'mmpretrain', 'mmcv', 'torch'}


def reject_pixel_attention(backbone: nn.Module) -> None:
    """Raise for a backbone with a known spatial self-attention layer.

    Such an encoder sees the tokens of one quarter in pre-training and those
    of the whole image afterwards (the paper's stated limitation). Attention
    layers of other packages are not recognized.

    Raises:
        UserError: Naming the backbone and the layer.
    """
    for module in backbone.modules():
        for cls in type(module).__mro__:
            package = cls.__module__.split('.')[0]
            if cls.__name__ in _ATTENTION and package in _PACKAGES:
                raise UserError(
                    f'{type(backbone).__name__} cannot be the encoder of '
                    f'QB-Heat: its {type(module).__name__} attends between '
                    'pixels, and pre-training shows it one quarter of them. '
                    'Use a convolutional backbone such as MobileFormer, '
                    'ResNet or ConvNeXt, or set '
                    'model.allow_pixel_attention=True')
