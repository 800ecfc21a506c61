# COCO 2017 as in mmdet, with strict checks of the annotation files.
_base_ = 'mmdet::_base_/datasets/coco_detection.py'

# mmdet's inferencer looks up this type name.
load_image = dict(
    type='LoadImageFromFile',
    _scope_='qbheat_mm',
    backend_args={{_base_.backend_args}})
train_pipeline = [load_image, *_base_.train_pipeline[1:]]
test_pipeline = [load_image, *_base_.test_pipeline[1:]]

dataset_type = 'MatchedCocoDataset'
train_dataloader = dict(
    dataset=dict(type=dataset_type, pipeline=train_pipeline))
val_dataloader = dict(
    dataset=dict(type=dataset_type, pipeline=test_pipeline))
test_dataloader = val_dataloader

# Evaluates on the annotations that the dataset accepts.
val_evaluator = dict(type='MatchedCocoMetric')
test_evaluator = val_evaluator
