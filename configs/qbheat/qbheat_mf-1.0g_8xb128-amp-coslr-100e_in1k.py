_base_ = './qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'

model = dict(
    backbone=dict(arch='mf-1.0g'), predictor=dict(in_channels=1440))
