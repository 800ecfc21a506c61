_base_ = './mf-dec-211_mf-285m_ft_8xb2-200e_coco.py'

default_hooks = dict(
    checkpoint_match=dict(required='mf-dec-522_mf-285m_frozen_8xb2-500e_coco'))

model = dict(depths=(5, 2, 2))
