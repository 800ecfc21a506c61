# `tran-1` on folders of classes of your own, on one GPU:
#   data/own/train/CLASS/..., data/own/val/CLASS/...
# The number of classes is that of the folders, counted when a run starts.
# Where the learning rate is too high (the loss is NaN, or stays at that of
# chance): docs/own_data.md.
_base_ = [
    '../../_base_/models/probe_tran.py',
    '../../_base_/datasets/own_folders_randaug.py',
    '../../_base_/schedules/probe_tran_adamw_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

model = dict(
    data_preprocessor=dict(num_classes=2), head=dict(num_classes=2))

optim_wrapper = dict(optimizer=dict(lr=0.0005 * 256 / 256))
auto_scale_lr = dict(base_batch_size=256)

default_hooks = dict(check_classes=dict(type='CheckFoldersHook'))
