_base_ = [
    '../_base_/models/mobile_former_v1.py',
    '../_base_/datasets/imagenet_mobile_former.py',
    '../_base_/schedules/mobile_former_adamw_coslr.py',
    '../_base_/runtime_mmpretrain.py'
]

model = dict(
    backbone=dict(arch='mf-508m'),
    neck=dict(
        in_channels=1440,
        token_dims=192,
        mid_channels=1920,
        drop_rate=0.3),
    head=dict(in_channels=1920))
