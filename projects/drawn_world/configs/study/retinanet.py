# RetinaNet on the frozen encoder, as in the demo but with larger batches.
_base_ = ['../retinanet_mf-demo_fpn_frozen.py']

train_dataloader = dict(batch_size=16)
train_cfg = dict(max_epochs=8, val_interval=8)
default_hooks = dict(checkpoint=dict(save_last=False))
