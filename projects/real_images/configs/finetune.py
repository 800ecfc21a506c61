# The whole network and its `tran-1` decoder, from an encoder or from random
# weights: whole images of 160 pixels, crops and flips, counted in steps.
_base_ = [
    '../../../configs/qbheat/benchmarks/'
    'mf-285m_1xb256-ft-tran1-coslr-200e_own-folders.py', './views.py'
]
custom_imports = dict(imports=['qbheat_mm', 'projects.real_images.labels'])

train_dataloader = dict(
    batch_size=32,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(pipeline=_base_.crops))
val_dataloader = dict(
    batch_size=64,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(data_prefix='test', pipeline=_base_.whole))
test_dataloader = val_dataloader

optim_wrapper = dict(
    _delete_=True,
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=5e-4, weight_decay=0.05, fused=True),
    clip_grad=dict(max_norm=3.))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=50),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=50)
]
train_cfg = dict(
    _delete_=True, type='IterBasedTrainLoop', max_iters=400,
    val_interval=10**6)

default_hooks = dict(
    logger=dict(interval=50),
    checkpoint=dict(interval=-1, by_epoch=False, save_last=True))
log_processor = dict(window_size=50, by_epoch=False)
