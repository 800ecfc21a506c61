_base_ = './mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py'

model = dict(
    backbone=dict(arch='mf-1.0g'), in_channels=(96, 1440), depths=(5, 2, 2))
