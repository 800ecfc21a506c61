_base_ = [
    '../../_base_/models/probe_lin.py',
    '../../_base_/datasets/imagenet_cls.py',
    '../../_base_/schedules/probe_lin_sgd_coslr.py',
    '../../_base_/runtime_mmpretrain.py'
]
