# The supervised baseline: encoder and `tran-1` decoder, as all methods have in
# Table "Fine-tuning results", trained from scratch. The paper does not say
# how; this is the recipe of Mobile-Former (CVPR 2022) for its largest two.
_base_ = [
    '../_base_/models/finetune_tran.py',
    '../_base_/datasets/imagenet_mobile_former.py',
    '../_base_/schedules/mobile_former_adamw_coslr.py',
    '../_base_/runtime_mmpretrain.py'
]

model = dict(
    backbone=dict(arch='mf-3.7g', init_cfg=None),
    neck=dict(
        in_channels=2880, token_dims=256, embed_dims=768, drop_rate=0.3),
    head=dict(in_channels=768),
    train_cfg=dict(augments=dict(type='Mixup', alpha=0.2)))
