# mmdet's Mask R-CNN on a frozen QB-Heat encoder: an FPN over 1/4, 1/8 and 1/16
# and two extra levels, the strides of ResNet's, so that anchors, RoIs and
# masks are mmdet's. Children set `arch` and the neck's `in_channels`.
_base_ = 'mmdet::_base_/models/mask-rcnn_r50_fpn.py'

model = dict(
    backbone=dict(
        _delete_=True,
        type='MobileFormer',
        out_indices=(1, 2, 4),
        frozen_stages=5,  # all of it
        # --cfg-options model.backbone.init_cfg.checkpoint=FILE
        init_cfg=dict(type='PretrainedEncoder', checkpoint=None)),
    neck=dict(in_channels=None))
