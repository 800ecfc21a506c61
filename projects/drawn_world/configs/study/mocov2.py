# MoCo-v2 for the study: a faster momentum encoder and a shorter queue than for
# ImageNet suit short runs.
_base_ = ['../mocov2_mf-demo_pretrain.py']

model = dict(queue_len=2048, momentum=0.01)
train_dataloader = dict(batch_size=32, dataset=dict(split='unlabeled'))
param_scheduler = dict(
    _delete_=True, type='CosineAnnealingLR', by_epoch=False, begin=0)
train_cfg = dict(_delete_=True, type='IterBasedTrainLoop', max_iters=3000)

default_hooks = dict(
    logger=dict(interval=100),
    checkpoint=dict(interval=-1, by_epoch=False, save_last=True))
log_processor = dict(window_size=100, by_epoch=False)
