# QB-Heat on MF-285M (Section 4.2): corner and center crops, eight linear
# models, a projection to 512, six decoder blocks. Children set `arch` and the
# predictor's `in_channels`.
model = dict(
    type='QBHeat',
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        to_rgb=True),
    backbone=dict(type='MobileFormer', arch='mf-285m'),
    predictor=dict(type='QBHeatPredictor', in_channels=720, embed_dims=512),
    neck=dict(
        type='QBHeatDecoder',
        embed_dims=512,
        depth=6,
        num_heads=16,  # as in MAE
        patch_size=16),
    head=dict(type='QBHeatPretrainHead', norm_pix=True, patch_size=16),
    position='mixed',
    num_models=8)
