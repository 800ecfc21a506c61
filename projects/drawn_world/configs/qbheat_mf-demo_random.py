# The baseline of the demo: an encoder with random weights. A learning rate of
# zero keeps them; batch norm alone gets the statistics of the images, without
# which a random encoder is worse than it need be.
_base_ = './qbheat_mf-demo_pretrain.py'

optim_wrapper = dict(optimizer=dict(lr=0., weight_decay=0.))

train_cfg = dict(max_epochs=2)

# Nothing is learned that could be looked at.
custom_hooks = []
