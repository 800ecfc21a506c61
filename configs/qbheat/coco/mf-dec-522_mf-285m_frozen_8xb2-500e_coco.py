_base_ = './mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py'

model = dict(depths=(5, 2, 2))
