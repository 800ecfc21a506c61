# Table 9. The cosine ends at `train_cfg.max_epochs`.
optim_wrapper = dict(
    type='AmpOptimWrapper',
    loss_scale='dynamic',
    optimizer=dict(
        type='AdamW',
        lr=1.5e-4 * 1024 / 256,  # base learning rate, batch size
        betas=(0.9, 0.95),  # as in MAE
        weight_decay=0.1,
        fused=True),
    constructor='GroupedOptimWrapperConstructor',
    # No weight decay on norms, biases and tokens, as in MAE.
    paramwise_cfg=dict(
        norm_decay_mult=0.,
        bias_decay_mult=0.,
        custom_keys={'backbone.tokens': dict(decay_mult=0.)}))

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

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=100)

auto_scale_lr = dict(base_batch_size=1024)
