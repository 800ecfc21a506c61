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
    stages=[[('lite', 8, 8)], [('lite-down', 16, 8)], [('mf-down', 16, 16)],
            [('mf-down', 32, 16), ('mf', 32, 16)]])
MOBILE_FORMER = dict(type='MobileFormer', arch=ARCH)
PIXELS = dict(mean=[120., 110., 100.], std=[60., 50., 55.], to_rgb=True)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    yield
    DefaultScope._instance_dict.clear()


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


def write_run(folder, model, scope='mmpretrain', **meta):
    """Configuration and checkpoint of a run, as mmengine writes them.

    Returns:
        tuple: The configuration, its file, the checkpoint's and the model.
    """
    cfg = Config(dict(default_scope=scope, model=model))
    cfg.dump(folder / 'config.py')
    with DefaultScope.overwrite_default_scope(scope):
        network = weighted(MODELS.build(copy.deepcopy(cfg.model)))
    file = folder / 'epoch_1.pth'
    torch.save(dict(meta=dict(cfg=cfg.pretty_text, **meta),
                    state_dict=network.state_dict()), file)
    return cfg, str(folder / 'config.py'), str(file), network


@pytest.fixture(scope='session')
def pretrained(tmp_path_factory):
    """A run of pre-training."""
    return write_run(tmp_path_factory.mktemp('pretrained'),
                     pretraining(MOBILE_FORMER, 32))


@pytest.fixture(scope='session')
def classifier(tmp_path_factory):
    """A run of `tran-1`."""
    backbone = dict(MOBILE_FORMER, out_indices=(4, 5), frozen_stages=5)
    return write_run(
        tmp_path_factory.mktemp('classifier'),
        dict(type='ImageClassifier',
             data_preprocessor=dict(type='ClsDataPreprocessor', **PIXELS),
             backbone=backbone,
             neck=dict(type='TransformerProbe', in_channels=32, token_dims=16,
                       embed_dims=16, num_heads=2),
             head=dict(type='LinearClsHead', num_classes=5, in_channels=16)),
        dataset_meta=dict(classes=['a', 'b', 'c', 'd', 'e']))
