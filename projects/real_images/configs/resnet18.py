# A user's own CNN instead of Mobile-Former: timm's ResNet-18, random weights.
_base_ = ['./qbheat.py']

model = dict(
    backbone=dict(_delete_=True, type='TimmEncoder', name='resnet18'),
    predictor=dict(in_channels=512),
    neck=dict(patch_size=32),
    head=dict(patch_size=32))
