# The encoder and its `tran-1` decoder learn from labels, from random weights.
_base_ = ['../mf-demo_finetune.py']

model = dict(backbone=dict(init_cfg=None))
train_dataloader = dict(batch_size=32)
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False,
         begin=0, end=100),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=100)
]
train_cfg = dict(_delete_=True, type='IterBasedTrainLoop', max_iters=3000,
                 val_interval=10**6)

default_hooks = dict(
    logger=dict(interval=100),
    checkpoint=dict(interval=-1, by_epoch=False, save_last=True))
log_processor = dict(window_size=100, by_epoch=False)
