_base_ = './mf-294m_8xb128-coslr-450e_in1k.py'

model = dict(
    backbone=dict(arch='mf-508m'),
    neck=dict(
        in_channels=1440,
        token_dims=192,
        mid_channels=1920,
        drop_rate=0.3),
    head=dict(in_channels=1920))
