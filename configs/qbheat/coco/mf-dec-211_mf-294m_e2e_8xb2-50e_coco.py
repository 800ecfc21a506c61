# On Mobile-Former V1 as in the frozen config, but end to end from the start,
# as DETR trains: the encoder at a tenth of the learning rate, its BN with the
# statistics of the checkpoint.
_base_ = './mf-dec-211_mf-294m_frozen_8xb2-50e_coco.py'

model = dict(backbone=dict(frozen_stages=-1, norm_eval=True))

optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys=dict(backbone=dict(lr_mult=0.1))))
