# A few short epochs, evaluated at the end.
_base_ = '../../../../configs/_base_/detection_runtime.py'

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=1e-4, fused=True),
    clip_grad=dict(max_norm=10.))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=50),
    dict(type='CosineAnnealingLR', convert_to_iter_based=True)
]
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=5, val_interval=5)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

default_hooks = dict(
    logger=dict(interval=20),
    checkpoint=dict(interval=-1, save_last=True, save_best=None))
log_processor = dict(window_size=20)
