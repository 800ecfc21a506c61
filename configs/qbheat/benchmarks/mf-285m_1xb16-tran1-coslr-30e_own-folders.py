# `tran-1` probing on your own data, one folder per class, in minutes on a CPU:
# the encoder sees whole images, so their features are computed once. The base
# has random crops and 200 epochs.
_base_ = './mf-285m_1xb256-tran1-coslr-200e_own-folders.py'

train_dataloader = dict(
    batch_size=16,
    dataset=dict(pipeline=_base_.val_dataloader.dataset.pipeline))

optim_wrapper = dict(optimizer=dict(lr=5e-4))
param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-3,
        by_epoch=True,
        begin=0,
        end=1,
        convert_to_iter_based=True),
    dict(
        type='CosineAnnealingLR',
        by_epoch=True,
        begin=1,
        convert_to_iter_based=True)
]
train_cfg = dict(max_epochs=30, val_interval=5)
auto_scale_lr = dict(base_batch_size=16)

custom_hooks = [dict(type='FrozenFeaturesHook')]
