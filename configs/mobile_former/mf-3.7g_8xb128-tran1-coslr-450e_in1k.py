_base_ = './mf-285m_8xb128-tran1-coslr-450e_in1k.py'

model = dict(
    backbone=dict(arch='mf-3.7g'),
    neck=dict(in_channels=2880, token_dims=256, embed_dims=768),
    head=dict(in_channels=768))
