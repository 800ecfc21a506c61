_base_ = './mf-dec-211_mf-3.7g_frozen_8xb2-500e_coco.py'

model = dict(depths=(5, 2, 2))
