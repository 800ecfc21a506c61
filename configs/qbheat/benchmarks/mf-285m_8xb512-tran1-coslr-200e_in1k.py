_base_ = [
    '../../_base_/models/probe_tran.py',
    '../../_base_/datasets/imagenet_randaug.py',
    '../../_base_/schedules/probe_tran_adamw_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

# Table 11: random erasing depends on the encoder.
train_pipeline = _base_.pipeline_without_erasing
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
