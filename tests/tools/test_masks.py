# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Mask R-CNN on a frozen encoder is trained and evaluated."""
import json
import runpy
import sys

import mmcv
import mmengine
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS

import qbheat_mm.models  # noqa: F401

from .conftest import ROOT

pytest.importorskip('mmdet')
ARCH = dict(stem=8, tokens=(3, 16),
            stages=[[('lite', 8, 8)], [('lite-down', 16, 8)],
                    [('mf-down', 16, 16)],
                    [('mf-down', 32, 16), ('mf', 32, 16)]], conv=32)
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
    """Four images of two classes with masks, and an encoder."""
    random = np.random.default_rng(0)
    images, annotations = [], []
    for i in range(4):
        image = random.integers(0, 255, (64, 96, 3), dtype=np.uint8)
        image[8:40, 16:64] = 250 * (i % 2)
        mmcv.imwrite(image, str(tmp_path / f'data/own/images/{i}.png'))
        images.append(
            dict(id=i, file_name=f'{i}.png', width=96, height=64))
        annotations.append(dict(
            id=i + 1, image_id=i, category_id=i % 2 + 1, iscrowd=0,
            bbox=[16, 8, 48, 32], area=1536,
            segmentation=[[16, 8, 64, 8, 64, 40, 16, 40]]))
    content = dict(images=images, annotations=annotations, categories=[
        dict(id=1, name='first'), dict(id=2, name='second')])
    (tmp_path / 'data/own/annotations').mkdir()
    for split in ('train', 'val'):
        (tmp_path / f'data/own/annotations/{split}.json').write_text(
            json.dumps(content))
    encoder = MODELS.build(dict(type='MobileFormer', arch=ARCH))
    torch.save(encoder.state_dict(), tmp_path / 'encoder.pth')
    (tmp_path / 'masks.py').write_text(CONFIG.format(root=ROOT, arch=ARCH))
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
    monkeypatch.setattr(sys, 'argv', [
        'train.py', 'masks.py', '--work-dir', 'runs', '--cfg-options',
        'model.backbone.init_cfg.checkpoint=encoder.pth',
        'train_dataloader.dataset.pipeline.2.scale=(96,64)',
        'val_dataloader.dataset.pipeline.1.scale=(96,64)'])
    runpy.run_path(str(ROOT / 'tools/train.py'), run_name='__main__')
    found = require_trained(folder / 'runs', folder / 'encoder.pth')
    assert 'coco/first_precision' in found
    monkeypatch.setattr(sys, 'argv', [
        'test.py', 'masks.py', 'runs/epoch_1.pth', '--work-dir', 'tested',
        '--out', 'out/found.pkl', '--cfg-options',
        'test_dataloader.dataset.pipeline.1.scale=(96,64)'])
    runpy.run_path(str(ROOT / 'tools/test.py'), run_name='__main__')
    # Run-length encoded, since full masks would not fit in memory.
    predictions = mmengine.load('out/found.pkl')
    masks = [mask for sample in predictions
             for mask in sample['pred_instances']['masks']]
    assert len(predictions) == 4 and masks
    assert all(set(mask) == {'size', 'counts'} for mask in masks)
