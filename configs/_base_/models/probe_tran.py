# `tran-1`: a transformer block before pooling and classifier (Section 5),
# 192, 384 or 768 wide for the three encoders.
# Label smoothing and dropout: Table 11.
model = dict(
    type='ImageClassifier',
    data_preprocessor=dict(
        num_classes=1000,
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        to_rgb=True),
    backbone=dict(
        type='MobileFormer',
        arch='mf-285m',
        out_indices=(4, 5),  # last 1x1 convolution, tokens
        frozen_stages=5,  # all
        # --cfg-options model.backbone.init_cfg.checkpoint=FILE
        init_cfg=dict(type='PretrainedEncoder', checkpoint=None)),
    neck=dict(
        type='TransformerProbe',
        in_channels=720,
        token_dims=192,
        embed_dims=192,
        depth=1,
        drop_rate=0.1),
    head=dict(
        type='LinearClsHead',
        num_classes=1000,
        in_channels=192,
        loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1)))
