# ImageNet-1K for pre-training, 256x256 (Table 9).
dataset_type = 'NamedImageNet'
data_root = 'data/imagenet/'

train_pipeline = [
    dict(
        type='LoadRandomResizedCrop',
        scale=256,
        crop_ratio_range=(0.2, 1.0),  # as in MAE
        interpolation='bicubic',
        ignore_empty='damage'),  # some files are corrupt
    dict(type='RandomFlip', _scope_='qbheat_mm', prob=0.5),
    dict(type='PackInputs', _scope_='qbheat_mm')
]

train_dataloader = dict(
    batch_size=128,
    num_workers=8,
    persistent_workers=True,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='train',
        pipeline=train_pipeline))
