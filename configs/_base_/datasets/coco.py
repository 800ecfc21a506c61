# COCO 2017 as in mmdet, refusing annotation files of other classes.
_base_ = 'mmdet::_base_/datasets/coco_detection.py'

dataset_type = 'MatchedCocoDataset'
train_dataloader = dict(dataset=dict(type=dataset_type))
val_dataloader = dict(dataset=dict(type=dataset_type))
test_dataloader = val_dataloader

# Reads the annotations as the data set does.
val_evaluator = dict(type='MatchedCocoMetric')
test_evaluator = val_evaluator
