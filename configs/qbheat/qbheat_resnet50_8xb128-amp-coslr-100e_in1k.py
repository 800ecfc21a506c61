_base_ = './qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'

model = dict(
    backbone=dict(_delete_=True, type='ResNet', depth=50),
    predictor=dict(in_channels=2048),
    # The last feature map has stride 32.
    neck=dict(patch_size=32),
    head=dict(patch_size=32))
