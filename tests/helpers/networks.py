# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Small networks with weights, and the checkpoints of their runs."""
import copy

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch import nn

import qbheat_mm  # noqa: F401

#: A Mobile-Former of four stages that costs nothing.
ARCH = dict(
    stem=8, tokens=(3, 16), conv=32,
    stages=[[('lite', 8, 8)], [('lite-down', 16, 8)], [('lite-down', 16, 16)],
            [('mf-down', 32, 16)]])
MOBILE_FORMER = dict(type='MobileFormer', arch=ARCH)
PIXELS = dict(mean=[120., 110., 100.], std=[60., 50., 55.], to_rgb=True)
#: torch 2.6 asks for more about the sides of some networks' images, and says
#: so in the line that names --size as the way out.
any_size = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split('.')[:2])) < (2, 7),
    reason='torch 2.6 exports some networks at a fixed size alone')


def pretraining(backbone, channels, patch=16):
    """Settings of a pre-training with an encoder."""
    return dict(
        type='QBHeat',
        data_preprocessor=dict(type='SelfSupDataPreprocessor', **PIXELS),
        backbone=backbone,
        predictor=dict(type='QBHeatPredictor', in_channels=channels,
                       embed_dims=8),
        neck=dict(type='QBHeatDecoder', embed_dims=8, depth=1, num_heads=2,
                  patch_size=patch),
        head=dict(type='QBHeatPretrainHead', patch_size=patch))


def weighted(model):
    """A network whose weights and statistics are none of a fresh one."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, std=0.1)
        elif isinstance(module, nn.Conv2d | nn.Linear):
            fan = module.weight[0].numel()
            nn.init.normal_(module.weight, std=fan**-0.5)
        elif isinstance(getattr(module, 'gamma', None), nn.Parameter):
            nn.init.uniform_(module.gamma, 0.5, 1.5)  # a ConvNeXt's block
    model.eval()  # which does not return a ResNet
    return model


def write_run(folder, model, scope='mmpretrain', encoder=None, **meta):
    """Configuration and checkpoint of a run, as mmengine writes them.

    Args:
        encoder (nn.Module, optional): Gives the backbone its weights.

    Returns:
        tuple: The configuration, its file, the checkpoint's and the model.
    """
    cfg = Config(dict(default_scope=scope, model=model))
    cfg.dump(folder / 'config.py')
    with DefaultScope.overwrite_default_scope(scope):
        network = weighted(MODELS.build(copy.deepcopy(cfg.model)))
    if encoder:
        network.backbone.load_state_dict(encoder.state_dict(), strict=False)
    file = folder / 'epoch_1.pth'
    torch.save(dict(meta=dict(cfg=cfg.pretty_text, **meta),
                    state_dict=network.state_dict()), file)
    return cfg, str(folder / 'config.py'), str(file), network


@MODELS.register_module()
class MapsForExport(nn.Module):
    """Two maps at little cost: (8, H / 8, W / 8) and half of its sides."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 9, 8, 4)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, 2, 1)

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        return x, self.second(x)


TINY_RESNET = dict(type='mmpretrain.ResNet', depth=18, base_channels=4,
                   stem_channels=4)
CLASSIFIER = dict(
    type='ImageClassifier',
    data_preprocessor=dict(type='ClsDataPreprocessor', **PIXELS),
    backbone=dict(MOBILE_FORMER, out_indices=(4, 5), frozen_stages=5),
    neck=dict(type='TransformerProbe', in_channels=32, token_dims=16,
              embed_dims=16, num_heads=2),
    head=dict(type='LinearClsHead', num_classes=5, in_channels=16))
DETECTOR = dict(
    data_preprocessor=dict(
        type='DetDataPreprocessor', mean=PIXELS['mean'], std=PIXELS['std'],
        bgr_to_rgb=False, pad_size_divisor=1))  # takes BGR
MF_DEC = dict(
    DETECTOR, type='MobileFormerDETR',
    backbone=dict(type='mmengine.MapsForExport'),
    in_channels=(8, 16), depths=(0, 1, 0), num_queries=7, embed_dims=16,
    num_heads=2, mobile_mlp_dims=16, former_mlp_dims=16,
    bbox_head=dict(
        type='DETRHead', num_classes=3, embed_dims=16,
        loss_cls=dict(type='CrossEntropyLoss', bg_cls_weight=0.1,
                      use_sigmoid=False, loss_weight=1., class_weight=1.)))
RETINANET = dict(
    DETECTOR, type='RetinaNet',
    backbone=dict(type='mmengine.MapsForExport'),
    neck=dict(type='FPN', in_channels=[8, 16], out_channels=8, num_outs=2),
    bbox_head=dict(
        type='RetinaHead', num_classes=3, in_channels=8, feat_channels=8,
        stacked_convs=1,
        anchor_generator=dict(
            type='AnchorGenerator', octave_base_scale=2, scales_per_octave=1,
            ratios=[0.5, 1.], strides=[8, 16]),
        bbox_coder=dict(type='DeltaXYWHBBoxCoder')),
    test_cfg=dict(nms_pre=20, min_bbox_size=0, score_thr=0.05,
                  nms=dict(type='nms', iou_threshold=0.5), max_per_img=10))
GFL = dict(
    RETINANET, type='GFL',
    bbox_head=dict(
        type='GFLHead', num_classes=3, in_channels=8, feat_channels=8,
        stacked_convs=1, reg_max=4,
        norm_cfg=dict(type='GN', num_groups=4),
        anchor_generator=dict(
            type='AnchorGenerator', octave_base_scale=2, scales_per_octave=1,
            ratios=[1.], strides=[8, 16]),
        loss_cls=dict(type='QualityFocalLoss', use_sigmoid=True)))
DETECTS = dict(
    backbone=dict(MOBILE_FORMER, out_indices=(2, 4), frozen_stages=5),
    data_preprocessor=dict(DETECTOR['data_preprocessor'], bgr_to_rgb=True))
#: One encoder, three heads.
HEADS = dict(
    classes=CLASSIFIER,
    boxes=dict(RETINANET, **DETECTS,
               neck=dict(RETINANET['neck'], in_channels=[16, 32])),
    queries=dict(MF_DEC, **DETECTS, in_channels=(16, 32)))
