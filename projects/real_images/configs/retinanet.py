# RetinaNet on the frozen encoder, with an FPN and a head as narrow as those of
# the drawn study. Without flips, features are computed once for each image.
# The study sets folder, classes and size of the images.
_base_ = [
    '../../../configs/_base_/models/retinanet_fpn.py',
    '../../../configs/_base_/datasets/own_coco.py',
    'mmdet::_base_/schedules/schedule_2x.py',
    '../../../configs/_base_/detection_runtime.py'
]

model = dict(
    backbone=dict(arch='mf-285m'),
    neck=dict(in_channels=[48, 720], out_channels=64),
    bbox_head=dict(
        num_classes=2, in_channels=64, feat_channels=64, stacked_convs=2))

load = _base_.train_dataloader.dataset.pipeline[0]
resize = dict(type='Resize', scale=(200, 200), keep_ratio=True)
annotations = dict(type='LoadAnnotations', with_bbox=True)
loader = dict(batch_size=16, num_workers=0, persistent_workers=False)
data = dict(data_prefix=dict(img=''))
train_dataloader = dict(
    loader, dataset=dict(data, pipeline=[
        load, annotations, resize, dict(type='PackDetInputs')
    ]))
val_dataloader = dict(
    loader, dataset=dict(data, ann_file='annotations/test.json', pipeline=[
        load, resize, annotations,
        dict(type='PackDetInputs', meta_keys=(
            'img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'))
    ]))
test_dataloader = val_dataloader

optim_wrapper = dict(
    _delete_=True,
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05),
    clip_grad=dict(max_norm=1.))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=50),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=50)
]
train_cfg = dict(
    _delete_=True, type='IterBasedTrainLoop', max_iters=800,
    val_interval=10**6)

default_hooks = dict(
    logger=dict(interval=50),
    checkpoint=dict(_delete_=True, type='SafeCheckpointHook', interval=-1,
                    by_epoch=False, save_last=False))
custom_hooks = [dict(type='FrozenFeaturesHook')]
log_processor = dict(window_size=50, by_epoch=False)
