# GFL on your own data, in minutes on a CPU (see docs/own_data.md). The
# neck and the head are narrow, as the frozen encoder is small.
_base_ = [
    '../../_base_/models/gfl_fpn.py',
    '../../_base_/datasets/own_coco_fixed_size.py',
    '../../_base_/schedules/frozen_steps.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-285m'),
    neck=dict(in_channels=[48, 720], out_channels=64),
    bbox_head=dict(
        num_classes=len(_base_.classes),
        in_channels=64,
        feat_channels=64,
        stacked_convs=2))

default_hooks = dict(
    logger=dict(interval=20), checkpoint=dict(by_epoch=False))
log_processor = dict(by_epoch=False)
