_base_ = './mf-dec-211_mf-285m_ft_8xb2-200e_coco.py'

default_hooks = dict(
    checkpoint_match=dict(required='mf-dec-211_mf-3.7g_frozen_8xb2-500e_coco'))

model = dict(backbone=dict(arch='mf-3.7g'), in_channels=(192, 2880))
