# A DETR variant that trains in 12 epochs.
_base_ = [
    '../../_base_/models/dino.py', '../../_base_/datasets/coco_detr.py',
    '../../_base_/schedules/dino_12e.py', '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-285m'), neck=dict(in_channels=[48, 720]))

train_dataloader = dict(dataset=dict(filter_cfg=dict(filter_empty_gt=False)))
