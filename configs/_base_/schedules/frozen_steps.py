# A detector on a frozen encoder in some hundred steps. Features of the encoder
# are computed once.
train_cfg = dict(type='IterBasedTrainLoop', max_iters=600, val_interval=150)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=5e-4, weight_decay=0.05),
    clip_grad=dict(max_norm=1.))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=100),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=100)
]
# The rate is for 8 images a step.
auto_scale_lr = dict(enable=True, base_batch_size=8)

custom_hooks = [dict(type='FrozenFeaturesHook', half=True)]
