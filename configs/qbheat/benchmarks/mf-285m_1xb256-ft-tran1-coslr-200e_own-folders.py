# End-to-end fine-tuning on your own data, one folder per class, on one GPU:
#   data/own/train/CLASS/..., data/own/val/CLASS/...
# The number of classes is counted when a run starts. The `tran-1` decoder
# starts from random weights; to start from a probed one, as in the paper, set
# load_from=PROBE instead of the encoder's checkpoint.
_base_ = [
    '../../_base_/models/finetune_tran.py',
    '../../_base_/datasets/own_folders_randaug.py',
    '../../_base_/schedules/finetune_adamw_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

model = dict(
    data_preprocessor=dict(num_classes=2), head=dict(num_classes=2))

optim_wrapper = dict(optimizer=dict(lr=0.0005 * 256 / 256))
auto_scale_lr = dict(base_batch_size=256)

default_hooks = dict(check_classes=dict(type='CheckClassesHook'))
