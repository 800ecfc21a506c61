# Mask R-CNN on your own data, in minutes on a CPU (see docs/own_data.md). The
# neck and the heads are narrow, as the frozen encoder is small.
_base_ = [
    '../../_base_/models/mask-rcnn_fpn.py',
    '../../_base_/own_detector.py'
]

load_masks = dict(type='LoadAnnotations', with_bbox=True, with_mask=True)
train_pipeline = [
    _base_.train_pipeline[0], load_masks, *_base_.train_pipeline[2:]
]
test_pipeline = [
    *_base_.test_pipeline[:-2], load_masks, _base_.test_pipeline[-1]
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
val_evaluator = dict(metric=['bbox', 'segm'])
test_evaluator = val_evaluator

heads = dict(num_classes=len(_base_.classes))
rois = dict(out_channels=64)
model = dict(
    # Batch norm keeps its statistics, if the encoder learns as well.
    backbone=dict(arch='mf-285m', norm_eval=True),
    neck=dict(in_channels=[28, 48, 720], out_channels=64),
    rpn_head=dict(in_channels=64, feat_channels=64),
    roi_head=dict(
        bbox_roi_extractor=rois,
        bbox_head=dict(heads, in_channels=64, fc_out_channels=256),
        mask_roi_extractor=rois,
        mask_head=dict(heads, in_channels=64, conv_out_channels=64)))
