# Supervised training of Mobile-Former (CVPR 2022) on ImageNet: AdamW, 450
# epochs, cosine, batch 1024. Learning rate and weight decay depend on the
# network; warm-up and final learning rate are timm's, which the authors used.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(
        type='AdamW', lr=1e-3, weight_decay=0.2, fused=True),
    constructor='GroupedOptimWrapperConstructor',
    # No weight decay on norms, biases and tokens.
    paramwise_cfg=dict(
        norm_decay_mult=0.,
        bias_decay_mult=0.,
        custom_keys={'backbone.tokens': dict(decay_mult=0.)}))

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=0.1,  # from 1e-4, as in timm
        by_epoch=True,
        begin=0,
        end=3,
        convert_to_iter_based=True),
    dict(
        type='CosineAnnealingLR',
        eta_min=1e-5,
        by_epoch=True,
        begin=3,
        convert_to_iter_based=True)
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=450, val_interval=1)
val_cfg = dict()
test_cfg = dict()

# base_batch_size = (8 GPUs) x (128 images per GPU)
auto_scale_lr = dict(base_batch_size=1024)
