# The images that classify.py describes.
_base_ = [
    '../../../configs/qbheat/benchmarks/'
    'mf-285m_1xb256-linear-coslr-90e_own-folders.py'
]

# Numbers of labels, in addition to all.
label_counts = (120, 30)
tuning = False  # see classes_tuning.py

# Whole images, smaller than those of ImageNet's probes: cheap.
test_pipeline = [
    dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
    dict(type='ResizeEdge', scale=160, edge='short', backend='pillow',
         interpolation='bicubic'),
    dict(type='CenterCrop', crop_size=160),
    dict(type='PackInputs')
]

train_dataloader = dict(batch_size=64, num_workers=0, persistent_workers=False)
val_dataloader = dict(
    batch_size=64, num_workers=0, persistent_workers=False,
    dataset=dict(data_prefix='test', pipeline=test_pipeline))
