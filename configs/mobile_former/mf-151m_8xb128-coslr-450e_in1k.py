_base_ = './mf-294m_8xb128-coslr-450e_in1k.py'

model = dict(
    backbone=dict(arch='mf-151m'),
    neck=dict(
        in_channels=768,
        token_dims=192,
        mid_channels=1280,
        drop_rate=0.2),
    head=dict(in_channels=1280))

optim_wrapper = dict(optimizer=dict(lr=9e-4, weight_decay=0.1))

# timm's warm-up always starts at 1e-4.
warmup, cosine = _base_.param_scheduler
param_scheduler = [dict(warmup, start_factor=1e-4 / 9e-4), cosine]
