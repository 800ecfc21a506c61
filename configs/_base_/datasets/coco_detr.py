# COCO 2017 with DETR's augmentation: half of the images are resized at once,
# half after a random crop.
_base_ = 'mmdet::_base_/datasets/coco_detection.py'

# Of the name that mmdet's inferencer looks for, but ours.
load_image = dict(
    type='LoadImageFromFile',
    _scope_='qbheat_mm',
    backend_args={{_base_.backend_args}})
scales = [(480 + 32 * i, 1333) for i in range(11)]
train_pipeline = [
    load_image,
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='RandomFlip', prob=0.5),
    dict(
        type='RandomChoice',
        transforms=[
            [dict(type='RandomChoiceResize', scales=scales, keep_ratio=True)],
            [
                dict(
                    type='RandomChoiceResize',
                    scales=[(400, 1333), (500, 1333), (600, 1333)],
                    keep_ratio=True),
                dict(
                    type='RandomCrop',
                    crop_type='absolute_range',
                    crop_size=(384, 600),
                    allow_negative_crop=True),
                dict(
                    type='RandomChoiceResize', scales=scales, keep_ratio=True)
            ]
        ]),
    dict(type='PackDetInputs')
]

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
