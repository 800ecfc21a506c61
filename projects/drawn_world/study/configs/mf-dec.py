# MF-Dec on the frozen encoder, as in the demo but with larger batches.
_base_ = ['../../configs/mf-dec_mf-demo_frozen.py']

train_dataloader = dict(batch_size=16)
train_cfg = dict(max_epochs=12, val_interval=6)
default_hooks = dict(checkpoint=dict(save_last=False))
