_base_ = './qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'

train_cfg = dict(max_epochs=1600)
