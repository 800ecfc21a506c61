# The demo's images with several objects, 128x128.
dataset_type = 'DemoDetection'

train_pipeline = [
    dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='Resize', scale=(128, 128), keep_ratio=True),
    dict(type='RandomFlip', prob=0.5),  # objects stand upright
    dict(type='PackDetInputs')
]
test_pipeline = [
    dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
    dict(type='Resize', scale=(128, 128), keep_ratio=True),
    # To draw the ground truth next to predictions.
    dict(type='LoadAnnotations', with_bbox=True),
    # With `instances` the evaluator needs no annotation file.
    dict(type='PackDetInputs', meta_keys=(
        'img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor',
        'instances'))
]

train_dataloader = dict(
    batch_size=8,
    num_workers=0,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(type=dataset_type, split='train', pipeline=train_pipeline))

val_dataloader = dict(
    batch_size=32,
    num_workers=0,
    drop_last=False,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(type=dataset_type, split='val', test_mode=True,
                 pipeline=test_pipeline))
val_evaluator = dict(type='CocoMetric', metric='bbox')

test_dataloader = val_dataloader
test_evaluator = val_evaluator
