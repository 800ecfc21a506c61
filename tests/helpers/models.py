"""Small networks, and QB-Heat on them."""
import torch
from mmpretrain.registry import MODELS

import qbheat_mm  # noqa: F401

TINY = dict(
    stem=8, tokens=(3, 16), conv=24,
    stages=[[('lite', 16, 8)], [('mf-down', 16, 8)], [('mf-down', 16, 12)],
            [('mf-down', 24, 16), ('mf', 32, 16)]])
#: For runs of seconds: 16 channels at most.
NARROW = dict(
    stem=4, tokens=(2, 8), conv=16,
    stages=[[('lite', 8, 4)], [('lite-down', 8, 8)], [('mf-down', 16, 8)],
            [('mf-down', 16, 8), ('mf', 16, 8)]])


def qbheat(backbone=None, in_channels=24, patch_size=16, kind='QBHeat',
           prediction='linear', out_channels=None, **kwargs):
    torch.manual_seed(0)
    return MODELS.build(dict(
        type=kind, backbone=backbone or dict(type='MobileFormer', arch=TINY),
        predictor=dict(type='QBHeatPredictor', in_channels=in_channels,
                       embed_dims=32, prediction=prediction),
        neck=dict(type='QBHeatDecoder', embed_dims=32, depth=1, num_heads=4,
                  patch_size=patch_size, out_channels=out_channels),
        head=dict(type='QBHeatPretrainHead', patch_size=patch_size),
        **kwargs))
