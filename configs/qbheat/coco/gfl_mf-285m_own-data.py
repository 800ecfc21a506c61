# GFL on your own data, in minutes on a CPU (see docs/own_data.md).
_base_ = [
    '../../_base_/models/gfl_fpn.py',
    '../../_base_/own_detector.py'
]

model = dict(
    # Batch norm keeps its statistics, if the encoder learns as well.
    backbone=dict(arch='mf-285m', norm_eval=True),
    neck=dict(in_channels=[48, 720]),
    bbox_head=dict(num_classes=len(_base_.classes)))
