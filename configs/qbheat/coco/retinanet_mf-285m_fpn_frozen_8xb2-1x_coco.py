_base_ = [
    '../../_base_/models/retinanet_fpn.py', '../../_base_/datasets/coco.py',
    'mmdet::_base_/schedules/schedule_1x.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-285m'), neck=dict(in_channels=[48, 720]))

# as in mmdet's RetinaNet
optim_wrapper = dict(optimizer=dict(lr=0.01))
