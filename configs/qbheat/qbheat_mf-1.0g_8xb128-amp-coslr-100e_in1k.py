_base_ = [
    '../_base_/models/qbheat.py', '../_base_/datasets/imagenet_qbheat.py',
    '../_base_/schedules/qbheat_adamw_coslr.py',
    '../_base_/runtime_mmpretrain.py'
]

model = dict(
    backbone=dict(arch='mf-1.0g'), predictor=dict(in_channels=1440))
