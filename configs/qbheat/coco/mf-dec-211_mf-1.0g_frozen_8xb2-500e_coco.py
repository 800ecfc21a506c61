_base_ = [
    '../../_base_/models/mf-dec.py', '../../_base_/datasets/coco_detr.py',
    '../../_base_/schedules/detr_500e.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-1.0g'), in_channels=(96, 1440), depths=(2, 1, 1))
