# Mask R-CNN on your own data in COCO format, on one GPU. Copy this file within
# its folder and edit the two settings below (see docs/own_data.md).
_base_ = [
    '../../_base_/models/mask-rcnn_fpn.py',
    '../../_base_/datasets/coco_instance.py',
    'mmdet::_base_/schedules/schedule_2x.py',
    '../../_base_/detection_runtime.py'
]

data_root = 'data/own/'
# In the order of the categories in the annotation files
classes = ('first', 'second')

train_dataloader = dict(
    batch_size=16,
    num_workers=8,
    dataset=dict(
        data_root=data_root,
        ann_file='annotations/train.json',
        data_prefix=dict(img='images/'),
        metainfo=dict(classes=classes),
        # Keep images without objects.
        filter_cfg=dict(filter_empty_gt=False, min_size=1)))
val_dataloader = dict(
    dataset=dict(
        data_root=data_root,
        ann_file='annotations/val.json',
        data_prefix=dict(img='images/'),
        metainfo=dict(classes=classes)))
test_dataloader = val_dataloader
val_evaluator = dict(
    ann_file=data_root + 'annotations/val.json', classwise=True)
test_evaluator = val_evaluator

heads = dict(num_classes=len(classes))
model = dict(
    backbone=dict(arch='mf-285m'),
    neck=dict(in_channels=[28, 48, 720]),
    roi_head=dict(bbox_head=heads, mask_head=heads))
