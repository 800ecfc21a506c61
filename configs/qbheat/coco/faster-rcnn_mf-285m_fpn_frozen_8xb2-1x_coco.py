# Faster R-CNN on an FPN over 1/8 and 1/16; other mmdet detectors work the same
# way. The finest level is 1/8 instead of ResNet's 1/4, so the anchor scale is
# halved to keep sizes from 32 to 512 pixels, and RoIs of up to 224 instead of
# 112 pixels use the finest level.
_base_ = [
    'mmdet::_base_/models/faster-rcnn_r50_fpn.py',
    '../../_base_/datasets/coco.py',
    'mmdet::_base_/schedules/schedule_1x.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(
        _delete_=True,
        type='MobileFormer',
        arch='mf-285m',
        out_indices=(2, 4),
        frozen_stages=5,  # all
        # --cfg-options model.backbone.init_cfg.checkpoint=FILE
        init_cfg=dict(type='PretrainedEncoder', checkpoint=None)),
    neck=dict(in_channels=[48, 720]),
    rpn_head=dict(
        anchor_generator=dict(scales=[4], strides=[8, 16, 32, 64, 128])),
    roi_head=dict(
        bbox_roi_extractor=dict(
            featmap_strides=[8, 16, 32, 64], finest_scale=112)))
