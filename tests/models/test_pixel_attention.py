# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Backbones with spatial self-attention are rejected."""
import pytest
from mmpretrain.registry import MODELS
from torch import nn

from qbheat_mm.errors import UserError
from qbheat_mm.models.selfsup.qbheat import reject_pixel_attention


@pytest.mark.parametrize('settings', [
    dict(type='MobileFormer'),
    dict(type='ResNet', depth=18),
    dict(type='SEResNet', depth=50),
    dict(type='ConvNeXt', arch='atto'),
])
def test_convolutional_backbones_are_accepted(settings):
    reject_pixel_attention(MODELS.build(settings))


@pytest.mark.parametrize('settings', [
    dict(type='VisionTransformer', arch='deit-tiny', img_size=64),
    dict(type='SwinTransformer', arch='tiny', img_size=64),
])
def test_transformers_are_rejected_unless_allowed(settings):
    model = dict(
        type='QBHeat', backbone=settings,
        predictor=dict(type='QBHeatPredictor', in_channels=8, embed_dims=8),
        neck=dict(type='QBHeatDecoder', embed_dims=8, depth=1, num_heads=2),
        head=dict(type='QBHeatPretrainHead'))
    with pytest.raises(UserError, match='allow_pixel_attention=True'):
        MODELS.build(model)
    MODELS.build(dict(model, allow_pixel_attention=True))


def test_another_class_of_the_same_name_is_accepted():
    class Attention(nn.Module):
        """A channel gate."""

    reject_pixel_attention(nn.Sequential(Attention()))
