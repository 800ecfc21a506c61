# `lin` on the demo's labeled images, the encoder frozen.
_base_ = [
    '../../../configs/_base_/models/probe_lin.py', './_base_/mf_demo_arch.py',
    './_base_/demo_cls.py', '../../../configs/_base_/runtime_mmpretrain.py'
]
custom_imports = dict(
    imports=['qbheat_mm', 'projects.drawn_world.classification'])

model = dict(
    data_preprocessor=dict(num_classes=8, **_base_.pixel_stats),
    backbone=dict(arch=dict(_delete_=True, **_base_.mf_demo)),
    neck=[
        dict(type='PoolWithToken'),
        dict(type='ClsBatchNormNeck', input_features=256 + 64)
    ],
    head=dict(num_classes=8, in_channels=256 + 64, topk=(1, )))

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=0.))
param_scheduler = dict(type='CosineAnnealingLR', convert_to_iter_based=True)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12, val_interval=12)
val_cfg = dict()
test_cfg = dict()

default_hooks = dict(
    logger=dict(interval=20), checkpoint=dict(interval=-1, save_last=True))
custom_hooks = [dict(type='FrozenFeaturesHook')]
log_processor = dict(window_size=20)
