# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tiny data sets, configs and runs of the tools."""
import sys

import mmcv
import mmengine
import numpy as np
import pytest

from ..helpers.tools import ROOT, run, run_tool

CLASSIFIER = """
_base_ = '{root}/configs/_base_/runtime_mmpretrain.py'
dataset = dict(
    type='CustomDataset', data_root='{data}', data_prefix='images',
    pipeline=[
        dict(type='LoadNamedImageFromFile'),
        dict(type='RandomResizedCrop', scale=16),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PackInputs')])
train_dataloader = dict(
    batch_size=4, num_workers=0, dataset=dataset,
    sampler=dict(type='DefaultSampler', shuffle=True))
val_dataloader = dict(
    batch_size=4, num_workers=0, dataset=dataset,
    sampler=dict(type='DefaultSampler', shuffle=False))
test_dataloader = val_dataloader
val_evaluator = dict(type='Accuracy', topk=(1, ))
test_evaluator = val_evaluator
model = dict(
    type='ImageClassifier',
    data_preprocessor=dict(mean=[127.5] * 3, std=[64.] * 3),
    backbone=dict(type='ResNet', depth=18, base_channels=4, stem_channels=4),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='StackedLinearClsHead', num_classes=2, in_channels=32,
              mid_channels=[8], dropout_rate=0.5))
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.01, momentum=0.9))
param_scheduler = dict(type='CosineAnnealingLR', T_max=4)
train_cfg = dict(by_epoch=True, max_epochs=4, val_interval=10)
val_cfg = dict()
test_cfg = dict()
"""

PRETRAINING = """
_base_ = '{root}/configs/_base_/runtime_mmpretrain.py'
train_dataloader = dict(
    batch_size=2, num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(
        type='CustomDataset', data_root='{data}', data_prefix='images',
        pipeline=[
            dict(type='LoadNamedImageFromFile'),
            dict(type='RandomResizedCrop', scale=64),
            dict(type='PackInputs')]))
model = dict(
    type='QBHeat',
    data_preprocessor=dict(type='SelfSupDataPreprocessor',
                           mean=[127.5] * 3, std=[64.] * 3),
    backbone=dict(
        type='MobileFormer',
        arch=dict(stem=4, tokens=(2, 8), conv=16,
                  stages=[[('lite', 8, 4)], [('lite-down', 8, 8)],
                          [('mf-down', 16, 8)],
                          [('mf-down', 16, 8), ('mf', 16, 8)]])),
    predictor=dict(type='QBHeatPredictor', in_channels=16, embed_dims=8),
    neck=dict(type='QBHeatDecoder', embed_dims=8, depth=1, num_heads=2,
              patch_size=16),
    head=dict(type='QBHeatPretrainHead', norm_pix=True, patch_size=16),
    position='mixed', num_models=8)
optim_wrapper = dict(optimizer=dict(type='AdamW', lr=1e-3))
train_cfg = dict(by_epoch=True, max_epochs=1)
"""

DETECTOR = """
_base_ = '{root}/configs/_base_/detection_runtime.py'
dataset = dict(
    type='CocoDataset', data_root='{data}', ann_file='coco.json',
    data_prefix=dict(img='images/a'), metainfo=dict(classes=('a', 'b')),
    pipeline=[
        dict(type='LoadNamedImageFromFile'),
        dict(type='LoadAnnotations', with_bbox=True),
        dict(type='Resize', scale=(32, 32)),
        dict(type='PackDetInputs')])
train_dataloader = dict(
    batch_size=2, num_workers=0, dataset=dataset,
    sampler=dict(type='DefaultSampler', shuffle=True))
val_dataloader = dict(
    batch_size=1, num_workers=0, dataset=dict(test_mode=True, **dataset),
    sampler=dict(type='DefaultSampler', shuffle=False))
test_dataloader = val_dataloader
val_evaluator = dict(type='CocoMetric', ann_file='{data}/coco.json')
test_evaluator = val_evaluator
model = dict(
    type='RetinaNet',
    data_preprocessor=dict(type='DetDataPreprocessor', mean=[127.5] * 3,
                           std=[64.] * 3, pad_size_divisor=32),
    backbone=dict(type='ResNet', depth=18, base_channels=4, stem_channels=4,
                  out_indices=(2, 3), frozen_stages=4, norm_eval=True),
    neck=dict(type='FPN', in_channels=[16, 32], out_channels=8, num_outs=3),
    bbox_head=dict(
        type='RetinaHead', num_classes=2, in_channels=8, feat_channels=8,
        stacked_convs=1,
        anchor_generator=dict(
            type='AnchorGenerator', octave_base_scale=1, scales_per_octave=1,
            ratios=[1.], strides=[16, 32, 64]),
        bbox_coder=dict(type='DeltaXYWHBBoxCoder')),
    train_cfg=dict(assigner=dict(type='MaxIoUAssigner', pos_iou_thr=0.5,
                                 neg_iou_thr=0.4, ignore_iof_thr=-1),
                   allowed_border=-1, pos_weight=-1, debug=False),
    test_cfg=dict(nms_pre=10, min_bbox_size=0, score_thr=0.0,
                  nms=dict(type='nms', iou_threshold=0.5), max_per_img=5))
optim_wrapper = dict(type='OptimWrapper',
                     optimizer=dict(type='SGD', lr=0.01))
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=1)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
"""


@pytest.fixture(scope='session')
def script(tmp_path_factory):
    """Run a shell script of the project in an empty folder."""
    folder = tmp_path_factory.mktemp('script')
    return lambda name, *args, **kwargs: run(
        ROOT / 'tools' / name, *args, cwd=folder,
        **dict(dict(PYTHON=sys.executable), **kwargs))


@pytest.fixture(scope='session')
def trained_classifier(tmp_path_factory, classifier_config):
    """Work folder of a classifier trained for four epochs."""
    folder = tmp_path_factory.mktemp('trained')
    run_tool('train.py', classifier_config, '--work-dir', folder)
    return folder


@pytest.fixture(scope='session')
def data(tmp_path_factory):
    """Eight images in two classes, with one box in each of the first four."""
    root = tmp_path_factory.mktemp('data')
    random = np.random.default_rng(0)
    boxes = []
    for i in range(8):
        image = random.integers(0, 255, (32, 32, 3), dtype=np.uint8)
        name = f'{"ab"[i // 4]}/{i}.jpg'
        mmcv.imwrite(image, str(root / 'images' / name))
        if i < 4:
            boxes.append(dict(id=i + 1, image_id=i, category_id=i % 2 + 1,
                              bbox=[4, 4, 16, 16], area=256, iscrowd=0))
    mmengine.dump(
        dict(images=[dict(id=i, file_name=f'{i}.jpg', width=32, height=32)
                     for i in range(4)],
             annotations=boxes,
             categories=[dict(id=1, name='a'), dict(id=2, name='b')]),
        root / 'coco.json')
    return root


@pytest.fixture(scope='session')
def classifier_config(data):
    """Config of a classifier with dropout and random augmentation."""
    file = data / 'classifier.py'
    file.write_text(CLASSIFIER.format(root=ROOT, data=data))
    return file


@pytest.fixture(scope='session')
def detector_config(data):
    """Config of a detector on a frozen encoder."""
    file = data / 'detector.py'
    file.write_text(DETECTOR.format(root=ROOT, data=data))
    return file


@pytest.fixture(scope='session')
def pretraining_config(data):
    """Config of QB-Heat on a tiny Mobile-Former."""
    file = data / 'pretraining.py'
    file.write_text(PRETRAINING.format(root=ROOT, data=data))
    return file
