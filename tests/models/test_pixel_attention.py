# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders that attend among pixels are known by what they do."""
import pytest
import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from mmpretrain.registry import MODELS
from torch import nn

from qbheat_mm.errors import UserError
from qbheat_mm.models.selfsup.pixel_attention import (
    grows_with_pairs,
    refuse_pixel_attention,
)


class Attention(nn.Module):
    """A gate of channels that happens to have this name."""

    def __init__(self, channels):
        super().__init__()
        self.gate = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return x * self.gate(x.mean((2, 3), keepdim=True)).sigmoid()


@MODELS.register_module()
class GatedNet(BaseModule):

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 4, 4)
        self.gate = Attention(8)

    def forward(self, x):
        return (self.gate(self.conv(x)), )


@MODELS.register_module()
class Mixer(BaseModule):
    """A vision transformer by another name."""

    def __init__(self, fused=False):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 4, 4)
        self.fused = fused

    def forward(self, x):
        x = self.conv(x)
        pixels = x.flatten(2).transpose(1, 2)
        if self.fused:
            pixels = F.scaled_dot_product_attention(pixels, pixels, pixels)
        else:
            pairs = pixels @ pixels.transpose(1, 2)
            pixels = pairs.softmax(-1) @ pixels
        return (pixels.transpose(1, 2).reshape(x.shape), )


def qbheat(backbone, **kwargs):
    return MODELS.build(
        dict(type='QBHeat', backbone=backbone,
             predictor=dict(type='QBHeatPredictor', in_channels=8,
                            embed_dims=8),
             neck=dict(type='QBHeatDecoder', embed_dims=8, depth=1,
                       num_heads=2, patch_size=4),
             head=dict(type='QBHeatPretrainHead', patch_size=4), **kwargs))


def test_a_gate_of_channels_is_taken_whatever_its_name():
    model = qbheat(dict(type='GatedNet'))
    loss = model(torch.randn(2, 3, 32, 32), mode='loss')['loss']
    assert torch.isfinite(loss) and model.backbone.training


@pytest.mark.parametrize('fused', [False, True])
def test_attention_among_pixels_is_refused_whatever_its_name(fused):
    backbone = dict(type='Mixer', fused=fused)
    with pytest.raises(UserError, match='allow_pixel_attention=True'):
        qbheat(backbone)
    model = qbheat(backbone, allow_pixel_attention=True)
    loss = model(torch.randn(2, 3, 32, 32), mode='loss')['loss']
    assert torch.isfinite(loss)


@pytest.mark.parametrize('settings', [
    dict(type='ResNet', depth=18),
    dict(type='SEResNet', depth=50),
    dict(type='MobileNetV3'),
    dict(type='ResNeSt', depth=50),
    dict(type='InceptionV3'),  # whose convolutions do not pad
])
def test_convolutional_networks_are_taken(settings):
    backbone = MODELS.build(settings)
    assert not grows_with_pairs(backbone)
    refuse_pixel_attention(backbone)


@pytest.mark.parametrize('settings', [
    dict(type='VisionTransformer', arch='deit-tiny', img_size=64),
    dict(type='SwinTransformer', arch='tiny', img_size=64),
])
def test_transformers_of_mmpretrain_are_refused(settings):
    with pytest.raises(UserError, match='attends among pixels'):
        refuse_pixel_attention(MODELS.build(settings))
