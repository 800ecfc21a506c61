# Linear probing (`lin`) on your own data, one folder per class, on one GPU:
#   data/own/train/CLASS/..., data/own/val/CLASS/...
# The number of classes is counted when a run starts.
_base_ = [
    '../../_base_/models/probe_lin.py',
    '../../_base_/datasets/own_folders.py',
    '../../_base_/schedules/probe_lin_sgd_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

model = dict(
    data_preprocessor=dict(num_classes=2), head=dict(num_classes=2))

optim_wrapper = dict(optimizer=dict(lr=0.1 * 256 / 256))
auto_scale_lr = dict(base_batch_size=256)

default_hooks = dict(check_classes=dict(type='CheckClassesHook'))
