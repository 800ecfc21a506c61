# The demo's images with one object, 128x128, some of them labeled.
dataset_type = 'DemoClassification'

train_pipeline = [
    dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackInputs')
]
test_pipeline = [
    dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
    dict(type='PackInputs')
]

train_dataloader = dict(
    batch_size=64,
    num_workers=0,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='default_collate'),
    dataset=dict(type=dataset_type, split='labeled', pipeline=train_pipeline))

val_dataloader = dict(
    batch_size=64,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='default_collate'),
    dataset=dict(type=dataset_type, split='val', pipeline=test_pipeline))
val_evaluator = dict(type='Accuracy', topk=(1, ))

test_dataloader = val_dataloader
test_evaluator = val_evaluator
