# mmdet's RetinaNet on a frozen QB-Heat encoder, with an FPN over 1/8, 1/16 and
# three extra levels. Children set `arch` and the neck's `in_channels`.
_base_ = 'mmdet::_base_/models/retinanet_r50_fpn.py'

model = dict(
    backbone=dict(
        _delete_=True,
        type='MobileFormer',
        out_indices=(2, 4),
        frozen_stages=5,  # all
        # --cfg-options model.backbone.init_cfg.checkpoint=FILE
        init_cfg=dict(type='PretrainedEncoder', checkpoint=None)),
    neck=dict(in_channels=None, start_level=0))
