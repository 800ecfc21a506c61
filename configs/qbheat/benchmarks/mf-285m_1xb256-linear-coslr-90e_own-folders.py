# `lin` on folders of classes of your own, on one GPU:
#   data/own/train/CLASS/..., data/own/val/CLASS/...
# The number of classes is that of the folders, counted when a run starts.
_base_ = './mf-285m_8xb512-linear-coslr-90e_in1k.py'

count_classes = True
data_root = 'data/own/'
# Unlike ImageNet's, damaged files stop the run.
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

model = dict(
    data_preprocessor=dict(num_classes=2), head=dict(num_classes=2))

optim_wrapper = dict(optimizer=dict(lr=0.1 * 256 / 256))
auto_scale_lr = dict(base_batch_size=256)

default_hooks = dict(check_classes=dict(type='CheckFoldersHook'))
