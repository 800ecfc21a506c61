# MF-Dec on a frozen QB-Heat encoder. Children set the encoder's `arch`, its
# channels at 1/8 and 1/16 (`in_channels`) and the decoder's `depths` (Tables 8
# and 13): (5, 2, 2) is MF-Dec-522, (2, 1, 1) is MF-Dec-211.
model = dict(
    type='MobileFormerDETR',
    data_preprocessor=dict(
        type='DetDataPreprocessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_size_divisor=1),
    backbone=dict(
        type='MobileFormer',
        out_indices=(2, 4),
        frozen_stages=5,  # all
        # --cfg-options model.backbone.init_cfg.checkpoint=FILE
        init_cfg=dict(type='PretrainedEncoder', checkpoint=None)),
    num_queries=100,
    dropout=0.1,
    bbox_head=dict(
        type='DETRHead',
        num_classes=80,
        embed_dims=256,
        # DETRHead modifies its default in place, so set it here.
        loss_cls=dict(
            type='CrossEntropyLoss',
            bg_cls_weight=0.1,
            use_sigmoid=False,
            loss_weight=1.0,
            class_weight=1.0),
        loss_bbox=dict(type='L1Loss', loss_weight=5.0),
        loss_iou=dict(type='GIoULoss', loss_weight=2.0)),
    train_cfg=dict(
        assigner=dict(
            type='HungarianAssigner',
            match_costs=[
                dict(type='ClassificationCost', weight=1.0),
                dict(type='BBoxL1Cost', weight=5.0, box_format='xywh'),
                dict(type='IoUCost', iou_mode='giou', weight=2.0)
            ])),
    test_cfg=dict(max_per_img=100))
