# Folders of classes of your own, augmented as ImageNet is for `tran-1`:
#   data/own/train/CLASS/..., data/own/val/CLASS/...
# The number of classes is that of the folders, counted when a run starts.
_base_ = './imagenet_randaug.py'

count_classes = True
data_root = 'data/own/'
# Own files that are damaged stop the run. (Under the names of imagenet_cls.py
# these would be merged with its transforms, which replace such files.)
load_own = dict(type='LoadImageFromFile', _scope_='qbheat_mm')
# Before the crop is known, which may need but a part of the resolution.
load_own_later = dict(**load_own, deferred=True)

train_dataloader = dict(
    batch_size=256,
    dataset=dict(
        _delete_=True,
        type='NamedImageFolder',
        data_root=data_root,
        data_prefix='train',
        pipeline=[load_own_later, *_base_.pipeline_without_erasing[1:]]))
val_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type='NamedImageFolder',
        data_root=data_root,
        data_prefix='val',
        pipeline=[load_own, *_base_.test_pipeline[1:]]))
test_dataloader = val_dataloader
val_evaluator = dict(topk=(1, ))
test_evaluator = val_evaluator
