_base_ = './mf-dec-211_mf-294m_e2e_8xb2-50e_coco.py'

model = dict(backbone=dict(arch='mf-508m'), in_channels=(72, 176))
