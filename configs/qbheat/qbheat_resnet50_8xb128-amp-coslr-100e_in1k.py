_base_ = [
    '../_base_/models/qbheat.py', '../_base_/datasets/imagenet_qbheat.py',
    '../_base_/schedules/qbheat_adamw_coslr.py',
    '../_base_/runtime_mmpretrain.py'
]

model = dict(
    backbone=dict(_delete_=True, type='ResNet', depth=50),
    predictor=dict(in_channels=2048),
    # The last features are at 1/32.
    neck=dict(patch_size=32),
    head=dict(patch_size=32))
