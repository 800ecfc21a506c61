_base_ = './mf-dec-211_mf-1.0g_frozen_8xb2-500e_coco.py'

model = dict(depths=(5, 2, 2))
