# A tenth of the paper's epochs, with the step at four fifths as well: the
# schedule of mmdet's Conditional DETR and DAB-DETR.
_base_ = './detr_500e.py'

train_cfg = dict(max_epochs=50, val_interval=5)
param_scheduler = [
    dict(
        type='MultiStepLR',
        begin=0,
        end=50,
        by_epoch=True,
        milestones=[40],
        gamma=0.1)
]
