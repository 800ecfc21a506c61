_base_ = [
    '../../_base_/models/mask-rcnn_fpn.py',
    '../../_base_/datasets/coco_instance.py',
    'mmdet::_base_/schedules/schedule_1x.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-285m'), neck=dict(in_channels=[28, 48, 720]))
