# COCO 2017 with instance masks, as in mmdet's coco_instance.py.
_base_ = './coco.py'

load_masks = dict(type='LoadAnnotations', with_bbox=True, with_mask=True)
train_pipeline = [
    _base_.load_image, load_masks, *_base_.train_pipeline[2:]
]
test_pipeline = [
    *_base_.test_pipeline[:2], load_masks, *_base_.test_pipeline[3:]
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader

val_evaluator = dict(metric=['bbox', 'segm'])
test_evaluator = val_evaluator
