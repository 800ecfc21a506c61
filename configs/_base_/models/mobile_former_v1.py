# Mobile-Former V1 with its classifier. Children set `arch`, the channels of
# the last 1x1 convolution (`neck.in_channels`), the token width, the
# classifier's hidden width and the dropout rate.
model = dict(
    type='ImageClassifier',
    data_preprocessor=dict(
        num_classes=1000,
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        to_rgb=True),
    backbone=dict(
        type='MobileFormer', arch='mf-294m', out_indices=(-2, -1)),
    neck=dict(
        type='MobileFormerV1Neck',
        in_channels=1152,
        token_dims=192,
        mid_channels=1920,
        drop_rate=0.3),
    head=dict(
        type='LinearClsHead',
        num_classes=1000,
        in_channels=1920,
        loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1)),
    train_cfg=dict(augments=dict(type='Mixup', alpha=0.2)))
