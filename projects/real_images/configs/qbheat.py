# The recipe for own images, counted in steps, in one process without workers.
_base_ = [
    '../../../configs/qbheat/'
    'qbheat_mf-285m_1xb64-amp-coslr-80e_own-images.py'
]

train_dataloader = dict(num_workers=0, persistent_workers=False)

param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=50),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=50)
]
train_cfg = dict(_delete_=True, type='IterBasedTrainLoop', max_iters=1000)

default_hooks = dict(
    logger=dict(interval=50),
    checkpoint=dict(interval=-1, by_epoch=False, save_last=True))
log_processor = dict(window_size=50, by_epoch=False)
