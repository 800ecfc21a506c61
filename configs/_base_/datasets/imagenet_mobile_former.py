# ImageNet-1K as in Mobile-Former (CVPR 2022): timm's RandAugment
# "rand-m9-mstd0.5", pixel-wise random erasing with p=0.2, random interpolation
# (bilinear or bicubic) in training, bilinear in validation.
_base_ = './imagenet_cls.py'

bgr_mean = [103.53, 116.28, 123.675]
bgr_std = [57.375, 57.12, 58.395]

# Without timm's "inc1", Posterize and Solarize get weaker as the magnitude
# grows, and color factors range from 0.1 to 1.9.
colors = dict(magnitude_range=(-0.9, 0.9), random_negative_prob=0.)
operations = [
    dict(type='AutoContrast'),
    dict(type='Equalize'),
    dict(type='Invert'),
    dict(type='Rotate', magnitude_range=(0, 30)),
    dict(type='Posterize', magnitude_range=(0, 4)),
    dict(type='Solarize', magnitude_range=(0, 256)),
    dict(type='SolarizeAdd', magnitude_range=(0, 110)),
    dict(type='ColorTransform', **colors),
    dict(type='Contrast', **colors),
    dict(type='Brightness', **colors),
    dict(type='Sharpness', **colors),
    dict(type='Shear', magnitude_range=(0, 0.3), direction='horizontal'),
    dict(type='Shear', magnitude_range=(0, 0.3), direction='vertical'),
    dict(type='Translate', magnitude_range=(0, 0.45), direction='horizontal'),
    dict(type='Translate', magnitude_range=(0, 0.45), direction='vertical')
]
# timm draws the interpolation anew for each operation. To match this, list
# geometric operations once per interpolation and all others twice.
policies = [
    dict(operation, interpolation=interpolation)
    if operation['type'] in ('Rotate', 'Shear', 'Translate') else operation
    for interpolation in ('bilinear', 'bicubic') for operation in operations
]

train_pipeline = [
    dict(
        type='LoadRandomResizedCrop',
        scale=224,
        interpolation='random',
        ignore_empty='damage'),
    dict(type='RandomFlip', _scope_='qbheat_mm', prob=0.5),
    dict(
        type='RandAugment',
        _scope_='qbheat_mm',
        policies=policies,
        num_policies=2,
        total_level=10,
        magnitude_level=9,
        magnitude_std=0.5,
        hparams=dict(pad_val=[round(x) for x in bgr_mean])),
    dict(
        type='RandomErasing',
        erase_prob=0.2,
        mode='rand',
        min_area_ratio=0.02,
        max_area_ratio=1 / 3,
        fill_color=bgr_mean,
        fill_std=bgr_std),
    dict(type='PackInputs', _scope_='qbheat_mm')
]
test_pipeline = [
    _base_.load_image,
    dict(type='ResizeEdge', scale=256, edge='short', backend='pillow'),
    dict(type='CenterCrop', crop_size=224),
    dict(type='PackInputs')
]

train_dataloader = dict(
    batch_size=128, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
