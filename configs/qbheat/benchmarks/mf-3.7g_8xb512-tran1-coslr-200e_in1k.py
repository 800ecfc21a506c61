_base_ = [
    '../../_base_/models/probe_tran.py',
    '../../_base_/datasets/imagenet_randaug.py',
    '../../_base_/schedules/probe_tran_adamw_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

# Table 11: dropout and random erasing depend on the
# encoder.
model = dict(
    backbone=dict(arch='mf-3.7g'),
    neck=dict(
        in_channels=2880, token_dims=256, embed_dims=768, drop_rate=0.2),
    head=dict(in_channels=768))
