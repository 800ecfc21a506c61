# Table 12. Children set epochs and layer-wise
# decay. The paper states lr = base lr * batch size / 256 for pre-training
# only; we apply it to every "base learning rate", as MAE does.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(
        type='AdamW',
        lr=0.0005 * 512 / 256,  # base learning rate, batch size
        betas=(0.9, 0.999),
        weight_decay=0.05,
        fused=True),
    constructor='GroupedOptimWrapperConstructor',
    paramwise_cfg=dict(
        layer_decay_rate=0.9,
        # No weight decay on norms, biases and tokens, as in MAE.
        norm_decay_mult=0.,
        bias_decay_mult=0.,
        custom_keys={'backbone.tokens': dict(decay_mult=0.)}))

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-4,
        by_epoch=True,
        begin=0,
        end=5,
        convert_to_iter_based=True),
    dict(
        type='CosineAnnealingLR',
        by_epoch=True,
        begin=5,
        convert_to_iter_based=True)
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=200, val_interval=1)
val_cfg = dict()
test_cfg = dict()

# base_batch_size = (8 GPUs) x (64 images per GPU)
auto_scale_lr = dict(base_batch_size=512)
