# QB-Heat as in the recipe for own images, but counted in steps, in one process
# without workers, and with a decoder of two narrow blocks.
_base_ = [
    '../../../configs/qbheat/'
    'qbheat_mf-285m_1xb64-amp-coslr-100e_own-images.py'
]

size = 128
train_pipeline = [
    dict(_base_.train_dataloader.dataset.pipeline[0], scale=size),
    *_base_.train_dataloader.dataset.pipeline[1:]
]

model = dict(
    predictor=dict(embed_dims=128),
    neck=dict(embed_dims=128, depth=2, num_heads=4))

train_dataloader = dict(
    batch_size=64,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(pipeline=train_pipeline))

optim_wrapper = dict(
    _delete_=True,
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=6e-4, betas=(0.9, 0.95),
                   weight_decay=0.1, fused=True),
    constructor='GroupedOptimWrapperConstructor',
    paramwise_cfg=dict(
        norm_decay_mult=0.,
        bias_decay_mult=0.,
        custom_keys={'backbone.tokens': dict(decay_mult=0.)}))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=50),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=50)
]
train_cfg = dict(_delete_=True, type='IterBasedTrainLoop', max_iters=1000)

default_hooks = dict(
    logger=dict(interval=50),
    checkpoint=dict(interval=-1, by_epoch=False, save_last=True))
log_processor = dict(window_size=50, by_epoch=False)
