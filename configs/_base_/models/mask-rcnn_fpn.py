# mmdet's Mask R-CNN on a frozen QB-Heat encoder. The FPN takes 1/4, 1/8 and
# 1/16 and adds two levels. Its strides are those of ResNet's FPN, so anchors,
# RoIs and masks are unchanged. Children set `arch` and the neck's
# `in_channels`.
_base_ = 'mmdet::_base_/models/mask-rcnn_r50_fpn.py'

model = dict(
    backbone=dict(
        _delete_=True,
        type='MobileFormer',
        out_indices=(1, 2, 4),
        frozen_stages=5,  # all
        # --cfg-options model.backbone.init_cfg.checkpoint=FILE
        init_cfg=dict(type='PretrainedEncoder', checkpoint=None)),
    neck=dict(in_channels=None))
