# Appendix B.2: 200 more epochs from the frozen run,
# learning rate 1e-5 for all parts, x0.1 after 150 epochs.
_base_ = './detr_500e.py'

optim_wrapper = dict(optimizer=dict(lr=1e-5))
train_cfg = dict(max_epochs=200)
param_scheduler = [
    dict(
        type='MultiStepLR',
        begin=0,
        end=200,
        by_epoch=True,
        milestones=[150],
        gamma=0.1)
]
