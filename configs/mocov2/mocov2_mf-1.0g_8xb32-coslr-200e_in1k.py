_base_ = './mocov2_mf-285m_8xb32-coslr-200e_in1k.py'

model = dict(
    backbone=dict(arch='mf-1.0g'),
    neck=[
        dict(type='PoolWithToken'),
        dict(
            type='MoCoV2Neck',
            in_channels=1696,
            hid_channels=1696,
            out_channels=128,
            with_avg_pool=False)
    ])
