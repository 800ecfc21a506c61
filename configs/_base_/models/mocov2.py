# mmpretrain's MoCo-v2. The projection head reads what `lin` probes: pooled
# pixels and the first token. Children set `arch` and this width.
model = dict(
    type='MoCo',
    queue_len=65536,
    feat_dim=128,
    momentum=0.001,
    backbone=dict(
        type='MobileFormer',
        arch='mf-285m',
        out_indices=(4, 5)),  # last 1x1 convolution, tokens
    neck=[
        dict(type='PoolWithToken'),
        dict(
            type='MoCoV2Neck',
            in_channels=912,
            hid_channels=912,
            out_channels=128,
            with_avg_pool=False)
    ],
    head=dict(
        type='ContrastiveHead',
        loss=dict(type='CrossEntropyLoss'),
        temperature=0.2))
