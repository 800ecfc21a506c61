# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A teacher of mean colors, and tiny runs that learn from it."""
from pathlib import Path

import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.model import BaseModule
from mmengine.registry import HOOKS, MODELS
from mmpretrain.registry import DATASETS

from qbheat_mm.export import export_encoder
from qbheat_mm.trained import Encoder, Normalization

from .models import TINY
from .tools import ROOT

RECIPE = str(ROOT / 'configs/qbheat'
             / 'qbheat_mf-285m_1xb64-amp-coslr-80e_own-images.py')
IDENTITY = Normalization((0., ) * 3, (1., ) * 3)


@MODELS.register_module()
class MeanColors(BaseModule):
    """A teacher whose maps are the mean colors of cells of 8 x 8 pixels."""

    def __init__(self, out_indices=(0, ), init_cfg=None):
        super().__init__(init_cfg)
        self.out_indices = out_indices
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        fine = F.avg_pool2d(x, 8) * self.weight
        return tuple((fine, fine.mean((1, 2, 3), keepdim=True))[i]
                     for i in self.out_indices)


def write_teacher(path, backbone, settings, normalization=IDENTITY,
                  size=(128, 128)):
    return export_encoder(Encoder(backbone, normalization, size=size,
                                  settings=settings), path)


def tiny_settings(images):
    """A small network, whose run takes seconds."""
    return {
        'train_dataloader.dataset.data_root': images,
        'train_dataloader.num_workers': 0, 'train_dataloader.batch_size': 2,
        'train_cfg.max_epochs': 2, 'model.backbone.arch': dict(
            TINY, _delete_=True),
        'model.predictor.in_channels': 24}


def dataset_of(images, *transforms):
    cfg = Config.fromfile(RECIPE).train_dataloader.dataset
    pipeline = [dict(cfg.pipeline[0], interpolation='bilinear'), *transforms]
    return DATASETS.build(dict(cfg, data_root=images, pipeline=pipeline))


FLIPS = [dict(type='RandomFlip', _scope_='qbheat_mm',
              prob=[0.25, 0.25, 0.25],
              direction=['horizontal', 'vertical', 'diagonal']),
         dict(type='PackInputs', _scope_='qbheat_mm')]


def read(maps):
    """All maps of a ``MapFolder``."""
    return maps[range(maps.starts[-1])].numpy()


def names(folder):
    """The names of a folder's content, sorted."""
    return sorted(path.name for path in Path(folder).iterdir())


@HOOKS.register_module()
class StopAtTwo(Hook):
    """End a run in its second epoch, after its first checkpoint."""

    def before_train_epoch(self, runner):
        if runner.epoch == 1:
            raise KeyboardInterrupt
