# `lin`: batch norm without affine parameters and a linear classifier on the
# pooled features of the frozen encoder (appendix, "Linear probing"). Children
# set `arch` and the width of pooled features and token: 912, 1696 or 3136.
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
    neck=[
        dict(type='PoolWithToken'),
        dict(type='ClsBatchNormNeck', input_features=912)
    ],
    head=dict(type='LinearClsHead', num_classes=1000, in_channels=912))
