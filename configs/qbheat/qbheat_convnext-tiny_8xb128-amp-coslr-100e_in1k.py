_base_ = './qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'

model = dict(
    backbone=dict(
        _delete_=True,
        type='ConvNeXt',
        arch='tiny',
        gap_before_final_norm=False),  # keep the feature map
    predictor=dict(in_channels=768),
    # The last feature map has stride 32.
    neck=dict(patch_size=32),
    head=dict(patch_size=32))
