# COCO 2017 with things and stuff, as in mmdet. Evaluation needs panopticapi.
_base_ = 'mmdet::_base_/datasets/coco_panoptic.py'

# mmdet's inferencer looks up this type name.
load_image = dict(
    type='LoadImageFromFile',
    _scope_='qbheat_mm',
    backend_args={{_base_.backend_args}})
train_pipeline = [load_image, *_base_.train_pipeline[1:]]
test_pipeline = [load_image, *_base_.test_pipeline[1:]]

train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
