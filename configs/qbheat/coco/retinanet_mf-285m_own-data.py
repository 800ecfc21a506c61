# RetinaNet on your own data, in minutes on a CPU (see docs/own_data.md). The
# neck and the head are narrow, as the frozen encoder is small.
_base_ = [
    '../../_base_/models/retinanet_fpn.py',
    '../../_base_/own_detector.py'
]

model = dict(
    # Batch norm keeps its statistics, if the encoder learns as well.
    backbone=dict(arch='mf-285m', norm_eval=True),
    neck=dict(in_channels=[48, 720], out_channels=64),
    bbox_head=dict(
        num_classes=len(_base_.classes),
        in_channels=64,
        feat_channels=64,
        stacked_convs=2))
