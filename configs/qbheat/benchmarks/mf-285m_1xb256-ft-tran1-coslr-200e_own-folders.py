# Fine-tuning of a pre-trained encoder and its `tran-1` decoder on folders of
# classes of your own, on one GPU:
#   data/own/train/CLASS/..., data/own/val/CLASS/...
# The number of classes is that of the folders, counted when a run starts.
_base_ = [
    '../../_base_/models/finetune_tran.py',
    '../../_base_/datasets/own_folders_randaug.py',
    '../../_base_/schedules/finetune_adamw_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

train_dataloader = dict(
    dataset=dict(
        pipeline=[_base_.load_own_later, *_base_.train_pipeline[1:]]))

model = dict(
    data_preprocessor=dict(num_classes=2), head=dict(num_classes=2))

optim_wrapper = dict(optimizer=dict(lr=0.0005 * 256 / 256))
auto_scale_lr = dict(base_batch_size=256)

default_hooks = dict(check_classes=dict(type='CheckFoldersHook'))
