# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Values that settings of mmengine, mmdet, mmpretrain, torch cannot have."""
import copy
import math
from pathlib import Path

import pytest
from mmengine.config import Config

from qbheat_mm.cli.setting_values import RULES, find_wrong

BASE = dict(
    default_scope='mmdet', work_dir='w', resume=False, log_level='INFO',
    model=dict(
        type='RetinaNet',
        data_preprocessor=dict(
            type='DetDataPreprocessor', mean=[1., 2., 3.], std=[1., 1., 1.],
            bgr_to_rgb=True, pad_size_divisor=32),
        backbone=dict(type='ResNet', depth=18, norm_eval=True,
                      frozen_stages=1),
        neck=dict(type='FPN', in_channels=[64, 128], out_channels=8,
                  num_outs=5),
        bbox_head=dict(
            type='RetinaHead', num_classes=2, in_channels=8, stacked_convs=0,
            anchor_generator=dict(
                type='AnchorGenerator', octave_base_scale=4,
                scales_per_octave=3, ratios=[.5, 1.], strides=[8, 16]),
            loss_cls=dict(type='FocalLoss', gamma=2., alpha=.25,
                          loss_weight=1.)),
        train_cfg=dict(assigner=dict(
            type='MaxIoUAssigner', pos_iou_thr=.5, neg_iou_thr=.4,
            min_pos_iou=0, ignore_iof_thr=-1)),
        test_cfg=dict(nms_pre=1000, min_bbox_size=0, score_thr=.05,
                      nms=dict(type='nms', iou_threshold=.5),
                      max_per_img=100)),
    train_dataloader=dict(
        batch_size=2, num_workers=2, drop_last=True, persistent_workers=True,
        sampler=dict(type='DefaultSampler', shuffle=True),
        dataset=dict(
            type='CocoDataset', data_root='a', ann_file='b.json',
            metainfo=dict(classes=('a', 'b')), data_prefix=dict(img='i'),
            filter_cfg=dict(filter_empty_gt=True, min_size=32), pipeline=[
                dict(type='RandomResizedCrop', scale=224),
                dict(type='RandomFlip', prob=.5),
                dict(type='Resize', scale=(1333, 800), keep_ratio=True),
                dict(type='PackDetInputs', meta_keys=('img_id', ))])),
    val_evaluator=dict(type='Accuracy', topk=(1, 5)),
    train_cfg=dict(type='EpochBasedTrainLoop', max_epochs=2, val_interval=1),
    optim_wrapper=dict(
        type='OptimWrapper', accumulative_counts=1,
        optimizer=dict(type='AdamW', lr=.1, weight_decay=0., betas=(.9, .99)),
        clip_grad=dict(max_norm=1., norm_type=2),
        paramwise_cfg=dict(norm_decay_mult=0., layer_decay_rate=.9)),
    param_scheduler=[
        dict(type='LinearLR', start_factor=.1, by_epoch=True, begin=0, end=1),
        dict(type='MultiStepLR', milestones=[8, 11], gamma=.1)],
    default_hooks=dict(
        checkpoint=dict(type='CheckpointHook', interval=1, max_keep_ckpts=-1),
        logger=dict(type='LoggerHook', interval=50)),
    custom_hooks=[dict(type='EMAHook', priority='NORMAL')],
    log_processor=dict(type='LogProcessor', window_size=50),
    env_cfg=dict(cudnn_benchmark=False,
                 mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
                 dist_cfg=dict(backend='nccl')),
    randomness=dict(seed=0, deterministic=False),
    auto_scale_lr=dict(enable=False, base_batch_size=16))

COUNT = (0, -1, 1.5, '2', None, True, [1])
SHARE = (-.1, 1.1, '0.5', math.nan)
SWITCH = (1, 0, 'yes', None)
WRONG = {
    'model': (1, 'a', None),
    'train_dataloader': (1, 'a'),
    'train_dataloader.batch_size': COUNT,
    'train_dataloader.num_workers': (-1, .5, '2', None),
    'train_dataloader.drop_last': SWITCH,
    'train_dataloader.sampler.shuffle': SWITCH,
    'train_dataloader.dataset': (1, 'a', None),
    'train_dataloader.dataset.data_root': (1, ['a']),
    'train_dataloader.dataset.data_prefix': (5, ['a']),
    'train_dataloader.dataset.data_prefix.img': (5, ['a'], {}),
    'train_dataloader.dataset.metainfo': (1, 'a', ['a']),
    'train_dataloader.dataset.metainfo.classes': ('a', 1, [1], {}),
    'train_dataloader.dataset.filter_cfg': (1, 'a'),
    'train_dataloader.dataset.filter_cfg.filter_empty_gt': SWITCH,
    'train_dataloader.dataset.filter_cfg.min_size': (-1, 'a', None),
    'train_dataloader.dataset.pipeline.3.meta_keys': ('img_id', 1, [1], None),
    'train_dataloader.dataset.pipeline': (1, 'a', None),
    'train_dataloader.dataset.pipeline.0.scale': (
        0, -1, 'a', 2.5, [1, 2, 3], [0, 1]),
    'train_dataloader.dataset.pipeline.1.prob': SHARE,
    'train_dataloader.dataset.pipeline.2.keep_ratio': SWITCH,
    'train_cfg': (1, 'a'),
    'train_cfg.max_epochs': COUNT,
    'train_cfg.val_interval': COUNT,
    'optim_wrapper': (1, 'a'),
    'optim_wrapper.accumulative_counts': COUNT,
    'optim_wrapper.optimizer': (1, 'AdamW', None),
    'optim_wrapper.optimizer.lr': (
        -1, 'a', None, math.nan, math.inf, [1]),
    'optim_wrapper.optimizer.weight_decay': (-1, 'a', None, math.nan),
    'optim_wrapper.optimizer.betas': (.9, [], [1., .9], [-.1, .9], 'ab'),
    'optim_wrapper.clip_grad': (1, 'a'),
    'optim_wrapper.clip_grad.max_norm': (0, -1, 'a', None, math.nan),
    'optim_wrapper.clip_grad.norm_type': (0, -2, 'a'),
    'optim_wrapper.paramwise_cfg.norm_decay_mult': (-1, 'a'),
    'optim_wrapper.paramwise_cfg.layer_decay_rate': (0, -1, 1.1, 'a'),
    'param_scheduler': (1, 'a'),
    'param_scheduler.0.start_factor': (0, -1, 2, 'a', None),
    'param_scheduler.0.begin': (-1, 'a', .5),
    'param_scheduler.0.end': (0, -1, 'a'),
    'param_scheduler.0.by_epoch': SWITCH,
    'param_scheduler.1.milestones': (8, [-1], ['a'], 'a'),
    'param_scheduler.1.gamma': (0, -1, 'a', None),
    'default_hooks': (1, 'a'),
    'default_hooks.checkpoint': (1, 'a'),
    'default_hooks.checkpoint.interval': (0, -2, 'a', 1.5, None),
    'default_hooks.checkpoint.max_keep_ckpts': (0, -2, 'a', None),
    'default_hooks.logger.interval': COUNT,
    'custom_hooks': (1, 'a'),
    'custom_hooks.0.priority': (-1, 101, 'SOON', 1.5),
    'log_processor.window_size': COUNT,
    'log_level': ('LOUD', 'debug', None, []),
    'resume': (1, 'auto', None),
    'work_dir': (1, ['a']),
    'env_cfg.cudnn_benchmark': SWITCH,
    'env_cfg.mp_cfg.mp_start_method': ('forks', 1, None),
    'env_cfg.mp_cfg.opencv_num_threads': (-1, 'a'),
    'randomness.seed': (-1, 'a', 1.5, 2**32),
    'randomness.deterministic': SWITCH,
    'auto_scale_lr.base_batch_size': COUNT,
    'auto_scale_lr.enable': SWITCH,
    'val_evaluator.topk': (0, -1, 'a', [0], []),
    'model.data_preprocessor.std': ([0, 1, 1], [-1, 1, 1], 1, 'a', []),
    'model.data_preprocessor.mean': ([math.nan], 'a', ['a']),
    'model.data_preprocessor.pad_size_divisor': COUNT,
    'model.data_preprocessor.bgr_to_rgb': SWITCH,
    'model.backbone.norm_eval': SWITCH,
    'model.backbone.frozen_stages': ('1', .5, None, True),
    'model.neck.in_channels': (0, [0], ['a'], [-1, 2], 'a', []),
    'model.neck.out_channels': (0, -1, 'a', 1.5),
    'model.neck.num_outs': COUNT,
    'model.bbox_head.num_classes': (0, -1, 'a', 1.5, [1]),
    'model.bbox_head.stacked_convs': (-1, 'a', None),
    'model.bbox_head.anchor_generator.strides': ([0], [-8], 'a', 8),
    'model.bbox_head.anchor_generator.ratios': ([0.], [-1], 'a'),
    'model.bbox_head.anchor_generator.octave_base_scale': (0, -1, 'a'),
    'model.bbox_head.loss_cls.gamma': (-1, 'a', None),
    'model.bbox_head.loss_cls.loss_weight': (-1, 'a', None, math.nan),
    'model.train_cfg.assigner.pos_iou_thr': SHARE,
    'model.train_cfg.assigner.neg_iou_thr': SHARE,
    'model.test_cfg.score_thr': SHARE,
    'model.test_cfg.nms.iou_threshold': SHARE,
    'model.test_cfg.max_per_img': (0, -2, 'a', 1.5, None),
    'model.test_cfg.nms_pre': (0, -2, 'a', 1.5),
    'model.test_cfg.min_bbox_size': (-1, 'a'),
}
CASES = [(setting, value) for setting, values in WRONG.items()
         for value in values]


def changed(setting, value):
    settings = copy.deepcopy(BASE)
    *path, last = setting.split('.')
    place = settings
    for name in path:
        place = place[int(name) if name.isdigit() else name]
    place[int(last) if last.isdigit() else last] = value
    return Config(settings)


def test_right_values_pass():
    assert find_wrong(Config(BASE)) == []


@pytest.mark.parametrize('setting', WRONG)
def test_wrong_values_are_named_with_what_is_allowed(setting):
    for value in WRONG[setting]:
        wrong = find_wrong(changed(setting, value))
        assert wrong, value
        assert any(line.startswith(f'{setting}=') for line in wrong), wrong
        assert all(' must be ' in line and '\n' not in line for line in wrong)


@pytest.mark.parametrize('setting, value', [
    ('train_dataloader.dataset.metainfo.classes', __file__),
    ('train_dataloader.dataset.filter_cfg', None),
    ('train_dataloader', None), ('param_scheduler', None),
    ('param_scheduler', dict(type='ConstantLR')), ('custom_hooks', None),
    ('optim_wrapper.clip_grad', None),
    ('optim_wrapper.clip_grad.norm_type', math.inf),
    ('default_hooks.checkpoint', None),
    ('default_hooks.checkpoint.interval', -1), ('randomness.seed', None),
    ('model.neck.in_channels', 64), ('custom_hooks.0.priority', 20),
    ('train_dataloader.dataset.pipeline.0.scale', (224, 192)),
    ('optim_wrapper.optimizer.lr', 0.), ('train_cfg.val_interval', 2.),
    ('model.neck.mid_channels', 0), ('model.neck.mid_channels', None),
])
def test_unusual_right_values_pass(setting, value):
    assert find_wrong(changed(setting, value)) == []


@pytest.mark.parametrize('config', [
    'demo/mf-demo_linear.py', 'demo/retinanet_mf-demo_fpn_frozen.py'])
def test_rules_for_hooks_are_of_the_hooks_that_are_shipped(config):
    """Some are of our own types, with settings of the types below them."""
    cfg = Config.fromfile(Path(__file__).parents[2] / 'configs' / config)
    assert find_wrong(cfg) == []
    names = {'checkpoint.interval', 'checkpoint.max_keep_ckpts',
             'checkpoint.by_epoch', 'checkpoint.save_best', 'logger.interval'}
    for name in names:
        hook, _, setting = name.partition('.')
        changed = copy.deepcopy(cfg)
        changed.default_hooks[hook][setting] = -7
        wrong, = find_wrong(changed)
        assert wrong.startswith(f'default_hooks.{name}=-7 must be ')


def test_there_are_many_cases_and_each_rule_is_a_rule():
    assert len(CASES) > 250
    assert all(hasattr(rule, 'holds') for rule in RULES.values())
