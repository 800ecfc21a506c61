# Your own boxes on images of one size: features of a frozen encoder can be
# computed once for each image and its mirror image. Padding changes features,
# so test images are padded as in training, and come one by one. Children
# change the size in both pipelines.
_base_ = './own_coco.py'

size = (640, 640)
resize = dict(
    type='Resize', scale=size, keep_ratio=True, interpolation='area')
pad_to_scale = dict(type='PadToScale')
train_pipeline = [
    *_base_.train_pipeline[:2], resize,
    dict(type='RandomFlip', prob=0.5), pad_to_scale,
    dict(type='PackDetInputs')
]
test_pipeline = [
    _base_.test_pipeline[0], resize, pad_to_scale, *_base_.test_pipeline[2:]
]

train_dataloader = dict(
    batch_size=8,
    # Epochs end nowhere: the run counts steps.
    sampler=dict(type='InfiniteSampler', shuffle=True),
    # Large photographs are decoded once, at this size.
    dataset=dict(shrink_to=size, pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
