# The encoder learns from the labeled images with its `tran-1` decoder: a
# pre-trained one, or one from scratch (model.backbone.init_cfg=None).
_base_ = './mf-demo_tran1.py'

model = dict(backbone=dict(frozen_stages=-1), neck=dict(drop_rate=0.2))

custom_hooks = []
