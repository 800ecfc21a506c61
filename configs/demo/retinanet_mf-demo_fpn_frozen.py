# RetinaNet on the frozen encoder: mmdet's, with a narrow FPN and head and
# without the two coarsest levels, which 128x128 images do not need.
_base_ = [
    '../_base_/models/retinanet_fpn.py', '../_base_/models/mf_demo_arch.py',
    '../_base_/datasets/demo_coco.py', '../_base_/detection_runtime.py'
]
custom_imports = dict(
    imports=['qbheat_mm.detection', 'qbheat_mm.demo.detection'])

model = dict(
    data_preprocessor=_base_.pixel_stats,
    backbone=dict(arch=_base_.mf_demo),
    neck=dict(in_channels=[32, 256], out_channels=64, num_outs=3),
    bbox_head=dict(
        num_classes=8,
        in_channels=64,
        feat_channels=64,
        stacked_convs=2,
        anchor_generator=dict(strides=[8, 16, 32])))

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=1e-4),
    clip_grad=dict(max_norm=10.))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=50),
    dict(type='CosineAnnealingLR', convert_to_iter_based=True)
]
train_cfg = dict(
    type='EpochBasedTrainLoop', max_epochs=5, val_interval=5)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

default_hooks = dict(
    logger=dict(interval=20),
    checkpoint=dict(interval=-1, save_last=True, save_best=None))
log_processor = dict(window_size=20)
