_base_ = './mf-285m_8xb64-ft-tran1-coslr-200e_in1k.py'

default_hooks = dict(
    checkpoint_match=dict(required='mf-3.7g_8xb512-tran1-coslr-200e_in1k'))

model = dict(
    backbone=dict(arch='mf-3.7g'),
    neck=dict(in_channels=2880, token_dims=256, embed_dims=768),
    head=dict(in_channels=768),
    train_cfg=dict(augments=[
        dict(type='Mixup', alpha=0.8),
        dict(type='CutMix', alpha=1.0)
    ]))

optim_wrapper = dict(paramwise_cfg=dict(layer_decay_rate=0.85))

train_cfg = dict(max_epochs=100)
