# MF-Dec, small, on the frozen encoder.
_base_ = [
    '../../../configs/_base_/models/mf-dec.py', './_base_/mf_demo_arch.py',
    './_base_/demo_coco.py', './_base_/demo_detection_runtime.py'
]
custom_imports = dict(
    imports=['qbheat_mm.detection', 'projects.drawn_world.detection'])

model = dict(
    data_preprocessor=_base_.pixel_stats,
    backbone=dict(arch=_base_.mf_demo),
    in_channels=(32, 256),
    depths=(1, 1, 1),
    num_queries=8,
    embed_dims=128,
    num_heads=4,
    mobile_mlp_dims=256,
    former_mlp_dims=256,
    dropout=0.,
    bbox_head=dict(num_classes=8, embed_dims=128),
    test_cfg=dict(max_per_img=8))

optim_wrapper = dict(optimizer=dict(lr=7e-4), clip_grad=dict(max_norm=1.))
train_cfg = dict(max_epochs=6, val_interval=6)
custom_hooks = [dict(type='FrozenFeaturesHook')]
