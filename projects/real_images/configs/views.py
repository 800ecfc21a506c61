# Whole images, smaller than those of ImageNet's probes, and random crops.
load = dict(type='LoadImageFromFile', _scope_='qbheat_mm')
whole = [
    load,
    dict(type='ResizeEdge', scale=160, edge='short', backend='pillow',
         interpolation='bicubic'),
    dict(type='CenterCrop', crop_size=160),
    dict(type='PackInputs')
]
crops = [
    load,
    dict(type='RandomResizedCrop', _scope_='qbheat_mm', scale=160,
         crop_ratio_range=(0.35, 1.)),
    dict(type='RandomFlip', _scope_='qbheat_mm', prob=0.5),
    dict(type='PackInputs')
]
