# ImageNet-1K for classification: random crops and flips in training, one
# 224x224 crop in validation (Section 6).
dataset_type = 'NamedImageNet'
data_root = 'data/imagenet/'

# mmpretrain's inferencers look up this type name. Some JPEG files of ImageNet
# are corrupt.
load_image = dict(
    type='LoadImageFromFile', _scope_='qbheat_mm', ignore_empty='damage')

train_pipeline = [
    dict(
        type='LoadRandomResizedCrop',
        scale=224,
        interpolation='bicubic',
        ignore_empty='damage'),
    dict(type='RandomFlip', _scope_='qbheat_mm', prob=0.5),
    dict(type='PackInputs', _scope_='qbheat_mm')
]
test_pipeline = [
    load_image,
    dict(
        type='ResizeEdge',
        scale=256,
        edge='short',
        backend='pillow',
        interpolation='bicubic'),
    dict(type='CenterCrop', crop_size=224),
    dict(type='PackInputs')
]

train_dataloader = dict(
    batch_size=512,
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

val_dataloader = dict(
    batch_size=128,
    num_workers=8,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='val',
        pipeline=test_pipeline))
val_evaluator = dict(type='Accuracy', topk=(1, 5))

test_dataloader = val_dataloader
test_evaluator = val_evaluator
