# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Mask R-CNN on a frozen encoder is trained and evaluated."""
import json

import mmengine
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS

import qbheat_mm.models  # noqa: F401

from ..configs.shipped import write_own
from ..conftest import run_tool
from .conftest import ROOT

pytest.importorskip('mmdet')
from ..detection.conftest import TINY_ARCH  # noqa: E402

CONFIG = """
_base_ = '{root}/configs/qbheat/coco/mask-rcnn_mf-285m_own-data.py'
model = dict(
    backbone=dict(arch=dict(_delete_=True, **{arch})),
    neck=dict(in_channels=[8, 16, 32]),
    roi_head=dict(bbox_head=dict(fc_out_channels=8),
                  mask_head=dict(conv_out_channels=8)),
    train_cfg=dict(rcnn=dict(sampler=dict(num=16))),
    test_cfg=dict(rcnn=dict(score_thr=0., max_per_img=5)))
part = dict(num_workers=0, persistent_workers=False)
train_dataloader = dict(batch_size=2, **part)
val_dataloader = part
test_dataloader = part
train_cfg = dict(max_epochs=1)
default_hooks = dict(logger=dict(interval=1))
"""


@pytest.fixture
def folder(tmp_path):
    """Two images of two classes with masks, and an encoder."""
    write_own(tmp_path / 'data/own')
    encoder = MODELS.build(dict(type='MobileFormer', arch=TINY_ARCH))
    torch.save(encoder.state_dict(), tmp_path / 'encoder.pth')
    (tmp_path / 'masks.py').write_text(CONFIG.format(
        root=ROOT, arch=TINY_ARCH))
    return tmp_path


def require_trained(work_dir, encoder):
    """Boxes and masks were evaluated, and the encoder is unchanged."""
    log, = work_dir.glob('*/vis_data/scalars.json')
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert any('loss_mask' in line for line in lines)
    found = next(line for line in lines if 'coco/segm_mAP' in line)
    assert 'coco/bbox_mAP' in found
    saved = torch.load(work_dir / 'epoch_1.pth', weights_only=False)
    for name, tensor in torch.load(encoder).items():
        assert torch.equal(saved['state_dict'][f'backbone.{name}'], tensor)
    return found


def test_own_data(folder, monkeypatch):
    for step in Config.fromfile(
            folder / 'masks.py').train_dataloader.dataset.pipeline:
        assert step.type != 'Resize' or step.scale == (1333, 800)
    monkeypatch.chdir(folder)
    run_tool('train.py', 'masks.py', '--work-dir', 'runs', '--cfg-options',
             'model.backbone.init_cfg.checkpoint=encoder.pth',
             'train_dataloader.dataset.pipeline.2.scale=(96,64)',
             'val_dataloader.dataset.pipeline.1.scale=(96,64)')
    found = require_trained(folder / 'runs', folder / 'encoder.pth')
    assert 'coco/first_precision' in found
    run_tool('test.py', 'masks.py', 'runs/epoch_1.pth', '--work-dir',
             'tested', '--out', 'out/found.pkl', '--cfg-options',
             'test_dataloader.dataset.pipeline.1.scale=(96,64)')
    # Run-length encoded, since full masks would not fit in memory.
    predictions = mmengine.load('out/found.pkl')
    masks = [mask for sample in predictions
             for mask in sample['pred_instances']['masks']]
    assert len(predictions) == 2 and masks
    assert all(set(mask) == {'size', 'counts'} for mask in masks)
