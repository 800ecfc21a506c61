# COCO 2017 with masks as in mmdet, refusing annotation files of other classes.
_base_ = 'mmdet::_base_/datasets/coco_instance.py'

# Of the name that mmdet's inferencer looks for, but ours.
load_image = dict(
    type='LoadImageFromFile',
    _scope_='qbheat_mm',
    backend_args={{_base_.backend_args}})
train_pipeline = [load_image, *_base_.train_pipeline[1:]]
test_pipeline = [load_image, *_base_.test_pipeline[1:]]

# Data set and evaluator as in coco.py.
dataset_type = 'MatchedCocoDataset'
train_dataloader = dict(
    dataset=dict(type=dataset_type, pipeline=train_pipeline))
val_dataloader = dict(
    dataset=dict(type=dataset_type, pipeline=test_pipeline))
test_dataloader = val_dataloader

val_evaluator = dict(type='MatchedCocoMetric')
test_evaluator = val_evaluator
