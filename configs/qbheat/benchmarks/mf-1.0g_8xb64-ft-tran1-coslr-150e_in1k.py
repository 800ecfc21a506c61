_base_ = './mf-285m_8xb64-ft-tran1-coslr-200e_in1k.py'

default_hooks = dict(
    checkpoint_match=dict(required='mf-1.0g_8xb512-tran1-coslr-200e_in1k'))

model = dict(
    backbone=dict(arch='mf-1.0g'),
    neck=dict(in_channels=1440, token_dims=256, embed_dims=384),
    head=dict(in_channels=384),
    train_cfg=dict(augments=[
        dict(type='Mixup', alpha=0.2),
        dict(type='CutMix', alpha=0.25)
    ]))

train_cfg = dict(max_epochs=150)
