_base_ = './mf-285m_8xb512-linear-coslr-90e_in1k.py'

model = dict(
    backbone=dict(arch='mf-1.0g'),
    neck=[
        dict(type='PoolWithToken'),
        dict(type='ClsBatchNormNeck', input_features=1696)
    ],
    head=dict(in_channels=1696))
