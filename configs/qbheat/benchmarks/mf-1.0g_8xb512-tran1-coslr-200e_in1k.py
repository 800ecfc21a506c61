_base_ = [
    '../../_base_/models/probe_tran.py',
    '../../_base_/datasets/imagenet_randaug.py',
    '../../_base_/schedules/probe_tran_adamw_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

# Table "tran-1 probing setting": dropout depends on the encoder, so does
# random erasing.
model = dict(
    backbone=dict(arch='mf-1.0g'),
    neck=dict(
        in_channels=1440, token_dims=256, embed_dims=384, drop_rate=0.2),
    head=dict(in_channels=384))

train_pipeline = _base_.pipeline_without_erasing
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
