# RetinaNet on the frozen encoder, with a narrow FPN and head and without the
# two coarsest levels, which 128x128 images do not need.
_base_ = [
    '../../../configs/_base_/models/retinanet_fpn.py',
    './_base_/mf_demo_arch.py',
    './_base_/demo_coco.py', './_base_/demo_detection_runtime.py'
]
custom_imports = dict(
    imports=['qbheat_mm.detection', 'projects.drawn_world.detection'])

model = dict(
    data_preprocessor=_base_.pixel_stats,
    backbone=dict(arch=_base_.mf_demo),
    neck=dict(in_channels=[32, 256], out_channels=64, num_outs=3),
    bbox_head=dict(
        num_classes=8, in_channels=64, feat_channels=64, stacked_convs=2,
        anchor_generator=dict(strides=[8, 16, 32])))

train_cfg = dict(max_epochs=6, val_interval=6)
custom_hooks = [dict(type='FrozenFeaturesHook')]
