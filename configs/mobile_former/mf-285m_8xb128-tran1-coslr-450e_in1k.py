# The supervised baseline of Table 4: encoder and `tran-1`
# decoder, trained from scratch. The paper gives no recipe; this is the one of
# the two largest networks in Mobile-Former (CVPR 2022).
_base_ = [
    '../_base_/models/finetune_tran.py',
    '../_base_/datasets/imagenet_mobile_former.py',
    '../_base_/schedules/mobile_former_adamw_coslr.py',
    '../_base_/runtime_mmpretrain.py'
]

model = dict(
    backbone=dict(init_cfg=None),
    neck=dict(drop_rate=0.3),
    train_cfg=dict(augments=dict(type='Mixup', alpha=0.2)))
