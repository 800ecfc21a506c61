# mmpretrain's MoCo-v2 with a faster momentum encoder and a queue that is
# shorter than the smallest data set, on the views of Barlow Twins.
_base_ = ['./barlowtwins.py']

model = dict(
    _delete_=True,
    type='MoCo',
    queue_len=512,
    feat_dim=128,
    momentum=0.01,
    data_preprocessor=_base_.model.data_preprocessor,
    backbone=_base_.model.backbone,
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
optim_wrapper = dict(
    optimizer=dict(
        _delete_=True, type='SGD', lr=0.06, momentum=0.9, weight_decay=1e-4))
