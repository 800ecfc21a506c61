# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tables of values that several recipes share, each with its source."""
from .recipe import under

ENCODERS = ('285m', '1.0g', '3.7g')
# Table "Specification of Mobile-Former encoders": width of the last 1x1
# convolution, of stage 3's output (1/8), of tokens; and of pooled features
# with the token, the table's row "pool concat".
LAST = {'285m': 720, '1.0g': 1440, '3.7g': 2880}
EIGHTH = {'285m': 48, '1.0g': 96, '3.7g': 192}
TOKEN = {'285m': 192, '1.0g': 256, '3.7g': 256}
POOLED = {'285m': 912, '1.0g': 1696, '3.7g': 3136}
# Appendix, "tran-1 probing": the default decoder widths.
WIDTH = {'285m': 192, '1.0g': 384, '3.7g': 768}

TRAIN = 'train_dataloader.dataset.pipeline'
VAL = 'val_dataloader.dataset.pipeline'
DECAY = 'optim_wrapper.paramwise_cfg'
WARMUP = 'param_scheduler.LinearLR'
COSINE = 'param_scheduler.CosineAnnealingLR'

# ImageNet's statistics in RGB, as torchvision's and the cited methods'.
STATISTICS = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])
# mmcv loads BGR.
BGR_MEAN, BGR_STD = ([*reversed(values)] for values in STATISTICS.values())
RGB = under('model.data_preprocessor', STATISTICS, to_rgb=True)

# Ours, by the name that the toolboxes' inferencers look for. ImageNet itself
# holds files that libjpeg calls corrupt.
LOADER = {'_scope_': 'qbheat_mm', 'ignore_empty': 'damage'}

# ImageNet-1K, each image once an epoch.
IMAGENET_TRAIN = {
    **under('train_dataloader', {
        'dataset.type': 'NamedImageNet', 'dataset.split': 'train',
        **under('dataset.pipeline.LoadImageFromFile', LOADER),
        'sampler.type': 'DefaultSampler', 'sampler.shuffle': True,
        'collate_fn.type': 'default_collate'}, drop_last=True),
    'train_cfg.type': 'EpochBasedTrainLoop',
}
# Section "Experiments": top-1 of a single 224x224 crop; that of ImageNet's
# usual test, the middle of an image whose short side is 256. Every image.
IMAGENET_VAL = {
    **under('val_dataloader', {
        'dataset.type': 'NamedImageNet', 'dataset.split': 'val',
        **under('dataset.pipeline.LoadImageFromFile', LOADER),
        'sampler.type': 'DefaultSampler', 'sampler.shuffle': False,
        'collate_fn.type': 'default_collate', 'drop_last': None}),
    **under(VAL, {
        'ResizeEdge.scale': 256, 'ResizeEdge.edge': 'short',
        'ResizeEdge.backend': 'pillow', 'CenterCrop.crop_size': 224}),
    'val_evaluator.type': 'Accuracy', 'val_evaluator.topk': [1, 5],
    'train_cfg.val_interval': 1,
    'test_dataloader': 'val_dataloader', 'test_evaluator': 'val_evaluator',
    'model.type': 'ImageClassifier',
    'model.data_preprocessor.num_classes': 1000,
    'model.head.num_classes': 1000,
}

# MAE's linear warm-up, each iteration, from (nearly) nothing, and cosine to 0
# at the end of training: mmpretrain::mae.
MAE_SCHEDULE = {
    'param_scheduler': 'LinearLR > CosineAnnealingLR',
    **under(WARMUP, start_factor=1e-4, begin=0, by_epoch=True,
            convert_to_iter_based=True),
    **under(COSINE, by_epoch=True, convert_to_iter_based=True, eta_min=None,
            end=None, T_max=None),
}
# MAE does not decay norms, biases, tokens.
NO_DECAY = under(DECAY, norm_decay_mult=0., bias_decay_mult=0.)
NO_TOKEN_DECAY = {f'{DECAY}.custom_keys.backbone.tokens.decay_mult': 0.}

# RandAug(9, 0.5) as timm writes it, "rand-m9-mstd0.5".
RAND_AUG = under(f'{TRAIN}.RandAugment', {'hparams.pad_val': [104, 116, 124]},
                 num_policies=2, total_level=10, magnitude_level=9,
                 magnitude_std=0.5)
# timm's erasing "by pixels" with its sizes, in the statistics of the image.
ERASING = under(f'{TRAIN}.RandomErasing', mode='rand', min_area_ratio=0.02,
                max_area_ratio=1 / 3, fill_color=BGR_MEAN, fill_std=BGR_STD)

# Where a run may differ from any recipe: how it is kept and started.
KEEPING = ('default_hooks.', 'custom_imports.', 'randomness.',
           'log_processor.', 'runner_type')
# Ours, for every run: what a source does not say. An interrupted run loses an
# epoch at most and does not fill the disk; two runs are the same.
RUNS = {
    **under('default_hooks.checkpoint', type='SafeCheckpointHook',
            interval=1, max_keep_ckpts=2),
    'randomness.seed': 0, 'randomness.deterministic': False,
    'resume': False, 'load_from': None,
    'env_cfg.cudnn_benchmark': False, 'env_cfg.dist_cfg.backend': 'nccl',
    'custom_imports.allow_failed_imports': False,
    'runner_type': 'AutoScaleRunner',
}


def encoder(e, frozen):
    """The encoder below a classifier: all of it frozen, or all trained."""
    return under('model.backbone', type='MobileFormer', arch=f'mf-{e}',
                 out_indices=[4, 5], frozen_stages=5 if frozen else -1,
                 drop_path_rate=None, norm_eval=None)
