# SimSiam for the study, on the views of MoCo-v2. The projector is as wide as
# the encoder's features, the predictor a quarter of it.
_base_ = ['./mocov2.py']

width = 256 + 64
model = dict(
    _delete_=True,
    type='SimSiam',
    data_preprocessor=_base_.model.data_preprocessor,
    backbone=_base_.model.backbone,
    neck=[
        dict(type='PoolWithToken'),
        dict(
            type='NonLinearNeck',
            in_channels=width,
            hid_channels=width,
            out_channels=width,
            num_layers=3,
            norm_cfg=dict(type='BN1d'),
            with_last_bn_affine=False,
            with_avg_pool=False)
    ],
    head=dict(
        type='LatentPredictHead',
        loss=dict(type='CosineSimilarityLoss'),
        predictor=dict(
            type='NonLinearNeck',
            in_channels=width,
            hid_channels=width // 4,
            out_channels=width,
            norm_cfg=dict(type='BN1d'),
            with_avg_pool=False,
            with_last_bn=False,
            with_last_bias=True)))

# The predictor keeps its rate, as in the paper's recipe.
lr = 0.05
optim_wrapper = dict(
    optimizer=dict(lr=lr),
    constructor='GroupedOptimWrapperConstructor',
    paramwise_cfg=dict(custom_keys={'predictor': dict(fix_lr=True)}))
custom_hooks = [
    dict(type='SimSiamHook', fix_pred_lr=True, lr=lr, adjust_by_epoch=False)
]
