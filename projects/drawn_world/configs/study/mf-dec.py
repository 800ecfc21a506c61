# MF-Dec on the frozen encoder, as wide as the other DETRs: mmdet's Conditional
# DETR has a fixed width of 256.
_base_ = ['../mf-dec_mf-demo_frozen.py']

model = dict(
    embed_dims=256,
    num_heads=8,
    mobile_mlp_dims=512,
    former_mlp_dims=512,
    bbox_head=dict(embed_dims=256))
train_dataloader = dict(batch_size=16)
train_cfg = dict(max_epochs=12, val_interval=6)
default_hooks = dict(checkpoint=dict(save_last=False))
