# MF-Dec-211 on your own data, on one GPU (see docs/own_data.md).
_base_ = [
    '../../_base_/models/mf-dec.py', '../../_base_/datasets/own_coco_detr.py',
    '../../_base_/schedules/detr_500e.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-285m'),
    in_channels=(48, 720),
    depths=(2, 1, 1),
    bbox_head=dict(num_classes=len(_base_.classes)))
