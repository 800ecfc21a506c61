# Mask R-CNN on the frozen encoder, with a narrow FPN and heads for 128x128
# images. Not part of `make demo`.
_base_ = [
    '../../../configs/_base_/models/mask-rcnn_fpn.py',
    './_base_/mf_demo_arch.py',
    './_base_/demo_coco.py', './_base_/demo_detection_runtime.py'
]
custom_imports = dict(
    imports=['qbheat_mm.detection', 'projects.drawn_world.detection'])

model = dict(
    data_preprocessor=_base_.pixel_stats,
    backbone=dict(arch=_base_.mf_demo, out_indices=(2, 4)),
    neck=dict(in_channels=[32, 256], out_channels=64, num_outs=3),
    rpn_head=dict(
        in_channels=64, feat_channels=64,
        anchor_generator=dict(scales=[2, 4], strides=[8, 16, 32])),
    roi_head=dict(
        bbox_roi_extractor=dict(
            out_channels=64, featmap_strides=[8, 16], finest_scale=28),
        bbox_head=dict(in_channels=64, fc_out_channels=256, num_classes=8),
        mask_roi_extractor=dict(out_channels=64, featmap_strides=[8]),
        # One mask for all classes: each learns from every object.
        mask_head=dict(num_convs=2, in_channels=64, conv_out_channels=64,
                       num_classes=8, class_agnostic=True)),
    train_cfg=dict(
        rpn_proposal=dict(nms_pre=500, max_per_img=100),
        rcnn=dict(sampler=dict(num=64))),
    test_cfg=dict(
        rpn=dict(nms_pre=200, max_per_img=100), rcnn=dict(max_per_img=10)))

train_pipeline = [
    dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(type='Resize', scale=(128, 128), keep_ratio=True),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackDetInputs')
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_evaluator = dict(metric=['bbox', 'segm'])
test_evaluator = val_evaluator

train_cfg = dict(max_epochs=6, val_interval=6)
custom_hooks = [dict(type='FrozenFeaturesHook')]
