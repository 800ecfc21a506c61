_base_ = './mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py'

model = dict(backbone=dict(arch='mf-3.7g'), in_channels=(192, 2880))
