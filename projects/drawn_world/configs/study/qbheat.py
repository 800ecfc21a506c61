# QB-Heat for the study: the demo's with small batches, counted in steps.
_base_ = ['../qbheat_mf-demo_pretrain.py']

train_dataloader = dict(batch_size=32, dataset=dict(split='unlabeled'))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=100),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=100)
]
train_cfg = dict(_delete_=True, type='IterBasedTrainLoop', max_iters=3000)

default_hooks = dict(
    logger=dict(interval=100),
    checkpoint=dict(interval=-1, by_epoch=False, save_last=True))
custom_hooks = []
log_processor = dict(window_size=100, by_epoch=False)
