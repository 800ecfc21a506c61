# Table 12, with the deeper decoder of Table 15. The decoder starts
# from random weights, since the paper mentions no probing for it.
_base_ = [
    '../../_base_/models/finetune_tran.py',
    '../../_base_/datasets/imagenet_randaug.py',
    '../../_base_/schedules/finetune_adamw_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

model = dict(neck=dict(depth=4))

train_dataloader = dict(batch_size=64)
