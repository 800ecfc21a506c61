_base_ = [
    '../_base_/models/qbheat.py', '../_base_/datasets/imagenet_qbheat.py',
    '../_base_/schedules/qbheat_adamw_coslr.py',
    '../_base_/runtime_mmpretrain.py'
]

model = dict(
    backbone=dict(
        _delete_=True,
        type='ConvNeXt',
        arch='tiny',
        gap_before_final_norm=False),  # a map, not a vector
    predictor=dict(in_channels=768),
    # The last features are at 1/32.
    neck=dict(patch_size=32),
    head=dict(patch_size=32))
