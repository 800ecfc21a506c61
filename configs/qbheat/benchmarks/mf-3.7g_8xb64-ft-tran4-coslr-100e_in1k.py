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
    backbone=dict(arch='mf-3.7g'),
    neck=dict(
        in_channels=2880, token_dims=256, embed_dims=768, depth=4),
    head=dict(in_channels=768),
    train_cfg=dict(augments=[
        dict(type='Mixup', alpha=0.8),
        dict(type='CutMix', alpha=1.0)
    ]))

train_dataloader = dict(batch_size=64)

optim_wrapper = dict(paramwise_cfg=dict(layer_decay_rate=0.85))

train_cfg = dict(max_epochs=100)
