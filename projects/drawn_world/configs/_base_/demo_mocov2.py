# Two views of each of the demo's images, augmented as for ImageNet.
_base_ = '../../../../configs/_base_/datasets/imagenet_mocov2.py'

crop, *rest = _base_.view_pipeline
crop = dict(crop, scale=128)
train_pipeline = [
    dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
    dict(type='MultiView', num_views=2, transforms=[[crop, *rest]]),
    dict(type='PackInputs')
]

train_dataloader = dict(
    batch_size=64,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        _delete_=True,
        type='DemoClassification',
        split='train',
        with_label=False,
        pipeline=train_pipeline))
