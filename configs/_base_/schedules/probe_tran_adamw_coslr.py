# Table 11. The paper states
# lr = base lr * batch size / 256 for pre-training only; we apply it to every
# "base learning rate", as MAE does.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(
        type='AdamW',
        lr=0.0005 * 4096 / 256,  # base learning rate, batch size
        betas=(0.9, 0.999),
        weight_decay=0.1,
        fused=True),
    constructor='GroupedOptimWrapperConstructor',
    # No weight decay on norms and biases, as in MAE.
    paramwise_cfg=dict(norm_decay_mult=0., bias_decay_mult=0.))

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-4,
        by_epoch=True,
        begin=0,
        end=10,
        convert_to_iter_based=True),
    dict(
        type='CosineAnnealingLR',
        by_epoch=True,
        begin=10,
        convert_to_iter_based=True)
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=200, val_interval=1)
val_cfg = dict()
test_cfg = dict()

# base_batch_size = (8 GPUs) x (512 images per GPU)
auto_scale_lr = dict(base_batch_size=4096)
