# mmdet's Conditional DETR, otherwise as detr.py.
_base_ = ['./detr.py']

attention = dict(_delete_=True, embed_dims=256, num_heads=8, attn_drop=0.)
model = dict(
    type='ConditionalDETR',
    decoder=dict(layer_cfg=dict(
        self_attn_cfg=dict(attention, cross_attn=False),
        cross_attn_cfg=dict(attention, cross_attn=True))),
    bbox_head=dict(
        type='ConditionalDETRHead',
        loss_cls=dict(_delete_=True, type='FocalLoss', use_sigmoid=True,
                      gamma=2., alpha=0.25, loss_weight=2.)),
    train_cfg=dict(assigner=dict(match_costs=[
        dict(type='FocalLossCost', weight=2.),
        dict(type='BBoxL1Cost', weight=5., box_format='xywh'),
        dict(type='IoUCost', iou_mode='giou', weight=2.)])))
