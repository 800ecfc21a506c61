_base_ = './qbheat_mf-3.7g_8xb128-amp-coslr-100e_in1k.py'

train_cfg = dict(max_epochs=800)
