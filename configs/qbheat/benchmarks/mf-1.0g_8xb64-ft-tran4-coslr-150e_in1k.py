# Table "End-to-end fine-tuning setting", with the deeper decoder of Table
# "Fine-tuning on ImageNet-1K with deeper decoders". The encoder comes from
# pre-training, the decoder starts anew: the paper names no probing for it.
_base_ = [
    '../../_base_/models/finetune_tran.py',
    '../../_base_/datasets/imagenet_randaug.py',
    '../../_base_/schedules/finetune_adamw_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]

model = dict(
    backbone=dict(arch='mf-1.0g'),
    neck=dict(
        in_channels=1440, token_dims=256, embed_dims=384, depth=4),
    head=dict(in_channels=384),
    train_cfg=dict(augments=[
        dict(type='Mixup', alpha=0.2),
        dict(type='CutMix', alpha=0.25)
    ]))

train_dataloader = dict(batch_size=64)

train_cfg = dict(max_epochs=150)
