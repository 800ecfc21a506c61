# mmpretrain's two views for MoCo-v2, cropped by torchvision's kernel, with
# torchvision's ColorJitter in the place of mmcv 2.1's, whose shift of the hue
# stops with an OverflowError on numpy 2.
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

# ImageNet has corrupt JPEG files.
load_image = dict(
    type='LoadImageFromFile', _scope_='qbheat_mm', ignore_empty='damage')
train_pipeline = [
    load_image,
    dict(type='MultiView', num_views=2, transforms=[view_pipeline]),
    dict(type='PackInputs')
]

train_dataloader = dict(
    # A base of another package marks each dict by its scope, which a
    # collate_fn does not understand.
    collate_fn=dict(_delete_=True, type='default_collate'),
    dataset=dict(type='NamedImageNet', pipeline=train_pipeline))
