# On Mobile-Former V1, whose supervised weights are published: ENCODER is what
# tools/model_converters/mobile_former_v1.py writes. MF-Dec takes maps at 1/8
# and 1/16, as of QB-Heat's encoders, and makes 1/32 itself: here the ends of
# stages 3 and 4. V1's stage at 1/32 is neither run nor trained.
_base_ = [
    '../../_base_/models/mf-dec.py', '../../_base_/datasets/coco_detr.py',
    '../../_base_/schedules/detr_50e.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-508m', out_indices=(2, 3), frozen_stages=6),
    in_channels=(72, 176),
    depths=(2, 1, 1))
