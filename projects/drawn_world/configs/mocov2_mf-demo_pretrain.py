# MoCo-v2 with the demo's encoder. The queue is smaller than the data set; the
# learning rate is doubled for the short schedule.
_base_ = [
    '../../../configs/_base_/models/mocov2.py', './_base_/mf_demo_arch.py',
    './_base_/demo_mocov2.py', '../../../configs/_base_/runtime_mmpretrain.py'
]
custom_imports = dict(
    imports=['qbheat_mm', 'projects.drawn_world.classification'])

width = 256 + 64
model = dict(
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor', to_rgb=True, **_base_.pixel_stats),
    queue_len=4096,
    backbone=dict(arch=dict(_delete_=True, **_base_.mf_demo)),
    neck=[
        dict(type='PoolWithToken'),
        dict(type='MoCoV2Neck', in_channels=width, hid_channels=width,
             out_channels=128, with_avg_pool=False)
    ])

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='SGD', lr=0.06, momentum=0.9, weight_decay=1e-4))
param_scheduler = dict(type='CosineAnnealingLR', convert_to_iter_based=True)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12)

default_hooks = dict(
    logger=dict(interval=20), checkpoint=dict(interval=-1, save_last=True))
log_processor = dict(window_size=20)
