# Appendix B.2, DETR training setup: 500 epochs, AdamW,
# learning rate 1e-4, x0.1 after 400 epochs, weight decay 1e-4. Gradients are
# clipped as in DETR.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(
        type='AdamW', lr=1e-4, weight_decay=1e-4, fused=True),
    clip_grad=dict(max_norm=0.1, norm_type=2))

train_cfg = dict(
    type='EpochBasedTrainLoop', max_epochs=500, val_interval=10)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

param_scheduler = [
    dict(
        type='MultiStepLR',
        begin=0,
        end=500,
        by_epoch=True,
        milestones=[400],
        gamma=0.1)
]

# base_batch_size = (8 GPUs) x (2 images per GPU)
auto_scale_lr = dict(enable=False, base_batch_size=16)
