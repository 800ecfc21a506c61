# An anchor-free one-stage detector.
_base_ = [
    '../../_base_/models/fcos_fpn.py', '../../_base_/datasets/coco.py',
    'mmdet::_base_/schedules/schedule_1x.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-285m'), neck=dict(in_channels=[48, 720]))

# mmdet's schedule for FCOS
optim_wrapper = dict(
    optimizer=dict(lr=0.01),
    constructor='GroupedOptimWrapperConstructor',
    paramwise_cfg=dict(bias_lr_mult=2., bias_decay_mult=0.),
    clip_grad=None)
param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1.0 / 3.0,
        by_epoch=False,
        begin=0,
        end=500),
    dict(
        type='MultiStepLR',
        begin=0,
        end=12,
        by_epoch=True,
        milestones=[8, 11],
        gamma=0.1)
]
