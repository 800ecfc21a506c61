# Your own images, one folder per class, with random crops and flips for
# training. The number of classes is counted when a run starts.
_base_ = './imagenet_cls.py'

count_classes = True
data_root = 'data/own/'
# Stop at damaged files, unlike for ImageNet.
load_image = dict(type='LoadImageFromFile', _scope_='qbheat_mm')
load_and_crop = dict(_base_.train_pipeline[0], ignore_empty=False)

train_dataloader = dict(
    batch_size=256,
    dataset=dict(
        _delete_=True,
        type='NamedImageFolder',
        data_root=data_root,
        data_prefix='train',
        pipeline=[load_and_crop, *_base_.train_pipeline[1:]]))
val_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type='NamedImageFolder',
        data_root=data_root,
        data_prefix='val',
        pipeline=[load_image, *_base_.test_pipeline[1:]]))
test_dataloader = val_dataloader
val_evaluator = dict(topk=(1, ))
test_evaluator = val_evaluator
