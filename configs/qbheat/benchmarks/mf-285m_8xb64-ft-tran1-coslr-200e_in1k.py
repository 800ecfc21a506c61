# Table 12.
_base_ = [
    '../../_base_/models/finetune_tran.py',
    '../../_base_/datasets/imagenet_randaug.py',
    '../../_base_/schedules/finetune_adamw_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

# The checkpoint of the tran-1 probe: --cfg-options load_from=FILE
load_from = None
default_hooks = dict(
    checkpoint_match=dict(required='mf-285m_8xb512-tran1-coslr-200e_in1k'))

model = dict(backbone=dict(init_cfg=None))

train_dataloader = dict(batch_size=64)
