_base_ = './mf-294m_8xb128-coslr-450e_in1k.py'

model = dict(
    backbone=dict(arch='mf-52m'),
    neck=dict(
        in_channels=576,
        token_dims=128,
        mid_channels=1024,
        drop_rate=0.2),
    head=dict(in_channels=1024))

optim_wrapper = dict(optimizer=dict(lr=8e-4, weight_decay=0.1))

# timm's warm-up always starts at 1e-4.
warmup, cosine = _base_.param_scheduler
param_scheduler = [dict(warmup, start_factor=1e-4 / 8e-4), cosine]
