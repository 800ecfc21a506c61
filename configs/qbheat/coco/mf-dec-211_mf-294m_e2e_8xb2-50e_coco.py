# Like the frozen config, but trained end to end from the start as in DETR: the
# encoder has a tenth of the learning rate and fixed BN statistics.
_base_ = [
    '../../_base_/models/mf-dec.py', '../../_base_/datasets/coco_detr.py',
    '../../_base_/schedules/detr_50e.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(
        arch='mf-294m',
        out_indices=(2, 3),
        frozen_stages=-1,
        norm_eval=True),
    in_channels=(48, 128),
    depths=(2, 1, 1))

optim_wrapper = dict(
    constructor='GroupedOptimWrapperConstructor',
    paramwise_cfg=dict(custom_keys=dict(backbone=dict(lr_mult=0.1))))
