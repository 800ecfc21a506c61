_base_ = [
    '../_base_/models/mobile_former_v1.py',
    '../_base_/datasets/imagenet_mobile_former.py',
    '../_base_/schedules/mobile_former_adamw_coslr.py',
    '../_base_/runtime_mmpretrain.py'
]
