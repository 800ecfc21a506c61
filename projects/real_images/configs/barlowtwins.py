# mmpretrain's Barlow Twins, on MoCo-v2's views, with a projector that is not
# wider than the encoder deserves.
_base_ = ['./qbheat.py']

size = 128
view = [
    dict(
        type='RandomResizedCrop',
        _scope_='qbheat_mm',
        scale=size,
        crop_ratio_range=(0.2, 1.),
        interpolation='bilinear'),
    dict(
        type='RandomApply',
        prob=0.8,
        transforms=[
            dict(type='NumpyToPIL', to_rgb=True),
            dict(
                type='torchvision/ColorJitter',
                brightness=0.4,
                contrast=0.4,
                saturation=0.4,
                hue=0.1),
            dict(type='PILToNumpy', to_bgr=True)
        ]),
    dict(type='RandomGrayscale', prob=0.2, keep_channels=True,
         channel_weights=(0.114, 0.587, 0.2989)),
    dict(type='GaussianBlur', magnitude_range=(0.1, 2.0),
         magnitude_std='inf', prob=0.5),
    dict(type='RandomFlip', _scope_='qbheat_mm', prob=0.5)
]

# The projector reads what `lin` probes: pooled pixels and the first token.
model = dict(
    _delete_=True,
    type='BarlowTwins',
    data_preprocessor=_base_.model.data_preprocessor,
    backbone=dict(type='MobileFormer', arch='mf-285m', out_indices=(4, 5)),
    neck=[
        dict(type='PoolWithToken'),
        dict(
            type='NonLinearNeck',
            in_channels=912,
            hid_channels=1024,
            out_channels=1024,
            num_layers=3,
            norm_cfg=dict(type='BN1d'),
            with_last_bn=False,
            with_last_bn_affine=False,
            with_avg_pool=False)
    ],
    head=dict(
        type='LatentCrossCorrelationHead',
        in_channels=1024,
        loss=dict(type='CrossCorrelationLoss')))

optim_wrapper = dict(optimizer=dict(lr=6e-4))

train_dataloader = dict(
    dataset=dict(pipeline=[
        dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
        dict(type='MultiView', num_views=2, transforms=[view]),
        dict(type='PackInputs')
    ]))
