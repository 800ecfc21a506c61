# Batch norm statistics of whole images, as the probes see them; no weight
# changes. Barlow Twins only serves to run the encoder.
_base_ = ['./barlowtwins.py']

view = [
    dict(type='ResizeEdge', scale=160, edge='short', backend='pillow',
         interpolation='bicubic'),
    dict(type='CenterCrop', crop_size=160),
    dict(type='RandomFlip', _scope_='qbheat_mm', prob=0.5)
]

train_dataloader = dict(
    batch_size=32,
    dataset=dict(pipeline=[
        dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
        dict(type='MultiView', num_views=2, transforms=[view]),
        dict(type='PackInputs')
    ]))
optim_wrapper = dict(optimizer=dict(lr=0., weight_decay=0.))
# 0.9^64 is left of the first statistics.
train_cfg = dict(max_iters=32)
