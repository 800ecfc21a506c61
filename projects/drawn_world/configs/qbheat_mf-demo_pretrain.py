# Pre-training of the demo: QB-Heat on the unlabeled images.
_base_ = [
    '../../../configs/_base_/models/qbheat.py', './_base_/mf_demo_arch.py',
    './_base_/demo_cls.py', '../../../configs/_base_/runtime_mmpretrain.py'
]
custom_imports = dict(
    imports=['qbheat_mm', 'projects.drawn_world.classification'])

model = dict(
    data_preprocessor=_base_.pixel_stats,
    backbone=dict(arch=dict(_delete_=True, **_base_.mf_demo)),
    predictor=dict(in_channels=256, embed_dims=64),
    neck=dict(embed_dims=64, depth=2, num_heads=4),
    # With per-patch normalization the unpredictable grain of surfaces would
    # weigh as much as the outlines of objects.
    head=dict(norm_pix=False))

train_dataloader = dict(dataset=dict(split='train', with_label=False))
# The probes evaluate it.
val_dataloader = None
val_evaluator = None
test_dataloader = None
test_evaluator = None

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=2e-3, betas=(0.9, 0.95),
                   weight_decay=0.05, fused=True),
    clip_grad=dict(max_norm=3.),
    constructor='GroupedOptimWrapperConstructor',
    paramwise_cfg=dict(
        norm_decay_mult=0.,
        bias_decay_mult=0.,
        # At the full rate, fifty times the paper's for this batch size, the
        # tokens collapse within three epochs. `former` matches the Former and
        # both bridges. MMEngine decays what a key names, norms and biases
        # too: less than 1 % over the demo's 1100 steps.
        custom_keys={
            'tokens': dict(lr_mult=0.1, decay_mult=0.),
            'former': dict(lr_mult=0.1)
        }))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, begin=0, end=1,
         convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', begin=1, convert_to_iter_based=True)
]
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12)

default_hooks = dict(
    logger=dict(interval=20),
    # for energy ratios over time
    checkpoint=dict(interval=3, max_keep_ckpts=4))
custom_hooks = [dict(type='AnalysisHook', interval=3)]
log_processor = dict(window_size=20)
