# `tran-1` on the demo's labeled images, the encoder frozen.
_base_ = [
    '../../../configs/_base_/models/probe_tran.py', './_base_/mf_demo_arch.py',
    './_base_/demo_cls.py', '../../../configs/_base_/runtime_mmpretrain.py'
]
custom_imports = dict(
    imports=['qbheat_mm', 'projects.drawn_world.classification'])

model = dict(
    data_preprocessor=dict(num_classes=8, **_base_.pixel_stats),
    backbone=dict(arch=dict(_delete_=True, **_base_.mf_demo)),
    neck=dict(in_channels=256, token_dims=64, embed_dims=96, num_heads=4),
    head=dict(num_classes=8, in_channels=96, topk=(1, )))

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05, fused=True),
    constructor='GroupedOptimWrapperConstructor',
    paramwise_cfg=dict(norm_decay_mult=0., bias_decay_mult=0.))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, begin=0, end=3,
         convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', begin=3, convert_to_iter_based=True)
]
# For the demo's few minutes; 64 epochs bring it to its end.
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=16, val_interval=16)
val_cfg = dict()
test_cfg = dict()

default_hooks = dict(
    logger=dict(interval=20), checkpoint=dict(interval=-1, save_last=True))
custom_hooks = [dict(type='FrozenFeaturesHook')]
log_processor = dict(window_size=20)
