# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checkpoints of a tiny encoder."""
import copy

import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope, init_default_scope

import qbheat_mm  # noqa: F401

MEAN, STD = [120., 110., 100.], [60., 50., 40.]
ARCH = dict(stem=8, tokens=(3, 16),
            stages=[[('lite', 8, 8)], [('mf-down', 16, 12), ('mf', 24, 12)]],
            conv=20)
MODEL = dict(
    type='QBHeat',
    data_preprocessor=dict(type='SelfSupDataPreprocessor', mean=MEAN, std=STD,
                           to_rgb=True),
    backbone=dict(type='MobileFormer', arch=ARCH),
    predictor=dict(type='QBHeatPredictor', in_channels=20, embed_dims=12),
    neck=dict(type='QBHeatDecoder', embed_dims=12, depth=1, num_heads=2,
              patch_size=4),
    head=dict(type='QBHeatPretrainHead', patch_size=4))
LOADER = dict(dataset=dict(pipeline=[
    dict(type='RandomResizedCrop', scale=32)]))


def settings_of(model=MODEL, **others):
    """The config of a run."""
    return dict(default_scope='mmpretrain', model=copy.deepcopy(model),
                train_dataloader=LOADER, **others)


def write_checkpoint(path, model, settings, epoch=1):
    """Write a checkpoint of random weights; return the model."""
    torch.manual_seed(epoch)
    init_default_scope('mmpretrain')
    network = MODELS.build(copy.deepcopy(model))
    network.init_weights()
    DefaultScope._instance_dict.clear()
    meta = dict(epoch=epoch, iter=10 * epoch)
    if settings is not None:
        meta['cfg'] = settings if isinstance(settings, str) else Config(
            settings).pretty_text
    torch.save(dict(meta=meta, state_dict=network.state_dict()), path)
    return network.eval()
