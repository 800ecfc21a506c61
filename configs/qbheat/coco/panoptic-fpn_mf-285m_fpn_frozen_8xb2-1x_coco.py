# mmdet's Panoptic FPN. Data and evaluation need panopticapi, which is not on
# PyPI:
#   pip install git+https://github.com/cocodataset/panopticapi.git
_base_ = [
    '../../_base_/models/mask-rcnn_fpn.py',
    '../../_base_/datasets/coco_panoptic.py',
    'mmdet::_base_/schedules/schedule_1x.py',
    '../../_base_/detection_runtime.py'
]

model = dict(
    type='PanopticFPN',
    data_preprocessor=dict(
        pad_mask=True, mask_pad_value=0, pad_seg=True, seg_pad_value=255),
    backbone=dict(arch='mf-285m'),
    neck=dict(in_channels=[28, 48, 720]),
    semantic_head=dict(
        type='PanopticFPNHead',
        num_things_classes=80,
        num_stuff_classes=53,
        in_channels=256,
        inner_channels=128,
        start_level=0,
        end_level=4,
        norm_cfg=dict(type='GN', num_groups=32, requires_grad=True),
        conv_cfg=None,
        loss_seg=dict(
            type='CrossEntropyLoss', ignore_index=255, loss_weight=0.5)),
    panoptic_fusion_head=dict(
        type='HeuristicFusionHead',
        num_things_classes=80,
        num_stuff_classes=53),
    test_cfg=dict(
        rcnn=dict(
            score_thr=0.6,
            nms=dict(type='nms', iou_threshold=0.5, class_agnostic=True)),
        panoptic=dict(mask_overlap=0.5, stuff_area_limit=4096)))

default_hooks = dict(
    checkpoint=dict(save_best='coco_panoptic/PQ', rule='greater'))
