# A baseline: random weights (learning rate 0) with the images' batch norm
# statistics, which make it a stronger one.
_base_ = './qbheat_mf-demo_pretrain.py'

optim_wrapper = dict(optimizer=dict(lr=0., weight_decay=0.))

train_cfg = dict(max_epochs=2)

custom_hooks = []
