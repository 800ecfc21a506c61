# `tran-1` probing on your own data, one folder per class, on one GPU:
#   data/own/train/CLASS/..., data/own/val/CLASS/...
# The number of classes is counted when a run starts. If the loss is NaN or
# stays at chance level, lower the learning rate (docs/troubleshooting.md).
_base_ = [
    '../../_base_/models/probe_tran.py',
    '../../_base_/datasets/own_folders_randaug.py',
    '../../_base_/schedules/probe_tran_adamw_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

train_dataloader = dict(
    dataset=dict(pipeline=[
        _base_.load_and_crop, *_base_.pipeline_without_erasing[1:]
    ]))

model = dict(
    data_preprocessor=dict(num_classes=2), head=dict(num_classes=2))

optim_wrapper = dict(optimizer=dict(lr=0.0005 * 256 / 256))
auto_scale_lr = dict(base_batch_size=256)

default_hooks = dict(check_classes=dict(type='CheckClassesHook'))
