# A tenth of the paper's 500 epochs, for which the paper has no numbers.
_base_ = [
    '../../_base_/models/mf-dec.py', '../../_base_/datasets/coco_detr.py',
    '../../_base_/schedules/detr_50e.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-285m'), in_channels=(48, 720), depths=(2, 1, 1))
