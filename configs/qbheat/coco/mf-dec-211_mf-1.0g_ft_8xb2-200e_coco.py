_base_ = './mf-dec-211_mf-285m_ft_8xb2-200e_coco.py'

default_hooks = dict(
    checkpoint_match=dict(required='mf-dec-211_mf-1.0g_frozen_8xb2-500e_coco'))

model = dict(backbone=dict(arch='mf-1.0g'), in_channels=(96, 1440))
