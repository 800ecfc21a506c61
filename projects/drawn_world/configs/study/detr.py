# mmdet's DETR on the frozen encoder, as wide as MF-Dec and with as many
# queries: one encoder layer, three decoder layers.
_base_ = ['./mf-dec.py']

dims = 256
attention = dict(embed_dims=dims, num_heads=8, dropout=0., batch_first=True)
ffn = dict(embed_dims=dims, feedforward_channels=512, num_fcs=2, ffn_drop=0.,
           act_cfg=dict(type='ReLU', inplace=True))

model = dict(
    _delete_=True,
    type='DETR',
    num_queries=8,
    data_preprocessor=_base_.model.data_preprocessor,
    backbone=dict(_base_.model.backbone, out_indices=(4, )),
    neck=dict(type='ChannelMapper', in_channels=[256], kernel_size=1,
              out_channels=dims, act_cfg=None, norm_cfg=None, num_outs=1),
    encoder=dict(num_layers=1, layer_cfg=dict(
        self_attn_cfg=attention, ffn_cfg=ffn)),
    decoder=dict(
        num_layers=3, return_intermediate=True, layer_cfg=dict(
            self_attn_cfg=attention, cross_attn_cfg=attention, ffn_cfg=ffn)),
    positional_encoding=dict(num_feats=dims // 2, normalize=True),
    bbox_head=_base_.model.bbox_head,
    train_cfg=_base_.model.train_cfg,
    test_cfg=_base_.model.test_cfg)
