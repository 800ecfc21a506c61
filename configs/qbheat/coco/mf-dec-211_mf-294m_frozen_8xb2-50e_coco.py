# MF-Dec on Mobile-Former V1, whose published supervised weights
# tools/model_converters/mobile_former_v1.py converts. MF-Dec reads the maps at
# 1/8 and 1/16, the ends of stages 3 and 4; V1's stage at 1/32 is not run.
_base_ = [
    '../../_base_/models/mf-dec.py', '../../_base_/datasets/coco_detr.py',
    '../../_base_/schedules/detr_50e.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-294m', out_indices=(2, 3), frozen_stages=6),
    in_channels=(48, 128),
    depths=(2, 1, 1))
