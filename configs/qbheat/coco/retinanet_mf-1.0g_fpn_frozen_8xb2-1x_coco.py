_base_ = './retinanet_mf-285m_fpn_frozen_8xb2-1x_coco.py'

model = dict(
    backbone=dict(arch='mf-1.0g'), neck=dict(in_channels=[96, 1440]))
