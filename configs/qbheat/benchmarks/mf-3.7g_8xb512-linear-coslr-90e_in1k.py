_base_ = './mf-285m_8xb512-linear-coslr-90e_in1k.py'

model = dict(
    backbone=dict(arch='mf-3.7g'),
    neck=[
        dict(type='PoolWithToken'),
        dict(type='ClsBatchNormNeck', input_features=3136)
    ],
    head=dict(in_channels=3136))
