# COCO 2017 with DETR's augmentation.
_base_ = ['./coco.py', './detr_augmentation.py']

train_pipeline = [
    *_base_.train_pipeline[:2], *_base_.detr_augmentation,
    dict(type='PackDetInputs')
]

train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
