# mmpretrain's two views for MoCo-v2, with torchvision's crop and ColorJitter:
# the hue shift of mmcv 2.1's ColorJitter raises OverflowError with numpy 2.
_base_ = 'mmpretrain::_base_/datasets/imagenet_bs32_mocov2.py'

_, _, *rest = _base_.view_pipeline
crop = dict(
    type='RandomResizedCrop',
    _scope_='qbheat_mm',
    scale=224,
    crop_ratio_range=(0.2, 1.),
    interpolation='bilinear')
color_jitter = dict(
    type='RandomApply',
    transforms=[
        dict(type='NumpyToPIL', to_rgb=True),
        dict(
            type='torchvision/ColorJitter',
            brightness=0.4,
            contrast=0.4,
            saturation=0.4,
            hue=0.1),
        dict(type='PILToNumpy', to_bgr=True)
    ],
    prob=0.8)
view_pipeline = [crop, color_jitter, *rest]

# Some JPEG files of ImageNet are corrupt.
load_image = dict(
    type='LoadImageFromFile', _scope_='qbheat_mm', ignore_empty='damage')
train_pipeline = [
    load_image,
    dict(type='MultiView', num_views=2, transforms=[view_pipeline]),
    dict(type='PackInputs')
]

train_dataloader = dict(
    # Drop the `_scope_` that mmengine adds to bases from other packages;
    # collate_fn doesn't accept it.
    collate_fn=dict(_delete_=True, type='default_collate'),
    dataset=dict(type='NamedImageNet', pipeline=train_pipeline))
