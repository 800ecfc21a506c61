_base_ = './mf-285m_8xb512-tran1-coslr-200e_in1k.py'

model = dict(
    backbone=dict(arch='mf-1.0g'),
    neck=dict(
        in_channels=1440, token_dims=256, embed_dims=384, drop_rate=0.2),
    head=dict(in_channels=384))
