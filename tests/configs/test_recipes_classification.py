# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Probes and fine-tuning on ImageNet: the paper, and MAE for what it leaves
open ("our linear probing follows MAE"; its tables are MAE's in form).
"""
import pytest

from .recipe import assert_tables, cited, differences, under
from .shipped import find
from .sources import (
    COSINE,
    DECAY,
    ENCODERS,
    ERASING,
    IMAGENET_TRAIN,
    IMAGENET_VAL,
    LAST,
    MAE_SCHEDULE,
    NO_DECAY,
    NO_TOKEN_DECAY,
    POOLED,
    RAND_AUG,
    RGB,
    RUNS,
    TOKEN,
    TRAIN,
    VAL,
    WARMUP,
    WIDTH,
    encoder,
)

# MAE, appendix A.1: mmpretrain's recipes of its fine-tuning and probing
BICUBIC = {f'{TRAIN}.RandomResizedCrop.interpolation': 'bicubic',
           f'{TRAIN}.RandomResizedCrop.crop_ratio_range': None,
           f'{TRAIN}.RandomFlip.prob': 0.5,
           f'{VAL}.ResizeEdge.interpolation': 'bicubic'}
INCREASING = {  # timm's "inc1", MAE's --aa rand-m9-mstd0.5-inc1
    f'{TRAIN}.RandAugment.policies': 'timm_increasing',
    f'{TRAIN}.RandAugment.hparams.interpolation': 'bicubic'}
# Our crop is Pillow's, see tests/datasets/test_resized_crop.py.
SHARED = {f'{TRAIN}.RandomResizedCrop._scope_': 'qbheat_mm',
          **IMAGENET_TRAIN, **IMAGENET_VAL, **RGB, **RUNS, **BICUBIC,
          **MAE_SCHEDULE, 'optim_wrapper.type': 'OptimWrapper',
          'optim_wrapper.clip_grad': None,
          'model.head.type': 'LinearClsHead',
          f'{TRAIN}.RandomResizedCrop.scale': 224}

# Table "Linear probing setting"
LINEAR = {
    **SHARED,
    **under('optim_wrapper.optimizer', type='SGD', lr=0.1 * 4096 / 256,
            momentum=0.9, weight_decay=0),  # MAE's momentum
    'train_dataloader.batch_size': 4096 // 8,
    'auto_scale_lr.base_batch_size': 4096, 'train_cfg.max_epochs': 90,
    f'{WARMUP}.end': 10, f'{COSINE}.begin': 10,
    TRAIN: 'LoadImageFromFile > RandomResizedCrop > RandomFlip > '
           'PackInputs',  # no other augmentation
    # An extra BN without affine transformation; it is mmpretrain's.
    'model.neck': 'PoolWithToken > ClsBatchNormNeck',
    'model.head.loss.label_smooth_val': None, 'custom_hooks': None,
    'model.backbone.init_cfg.type': 'PretrainedEncoder',
    'model.train_cfg.augments': None, 'optim_wrapper.paramwise_cfg': None,
}
# Table "tran-1 probing setting"
TRAN1 = {
    **SHARED, **NO_DECAY, **RAND_AUG, **INCREASING,
    **under('optim_wrapper.optimizer', type='AdamW', lr=0.0005 * 4096 / 256,
            betas=[0.9, 0.999], weight_decay=0.1),  # MAE's betas
    'train_dataloader.batch_size': 4096 // 8,
    'auto_scale_lr.base_batch_size': 4096, 'train_cfg.max_epochs': 200,
    f'{WARMUP}.end': 10, f'{COSINE}.begin': 10,
    'model.neck.type': 'TransformerProbe', 'model.neck.depth': 1,
    'model.neck.num_heads': None,  # the decoder's own, a head of 32 or so
    'model.head.loss.type': 'LabelSmoothLoss',
    'model.head.loss.label_smooth_val': 0.1, 'custom_hooks': None,
    'model.backbone.init_cfg.type': 'PretrainedEncoder',
    'model.train_cfg.augments': None,
}
TRAN1_EACH = {
    '285m': {'model.neck.drop_rate': 0.1},
    '1.0g': {'model.neck.drop_rate': 0.2},
    '3.7g': {'model.neck.drop_rate': 0.2, **ERASING,
             f'{TRAIN}.RandomErasing.erase_prob': 0.25}}
NOT_ERASED = {f'{TRAIN}.RandomErasing.erase_prob': None}
# Table "End-to-end fine-tuning setting"
FINETUNE = {
    **SHARED, **NO_DECAY, **NO_TOKEN_DECAY, **RAND_AUG, **INCREASING,
    **ERASING,
    **under('optim_wrapper.optimizer', type='AdamW', lr=0.0005 * 512 / 256,
            betas=[0.9, 0.999], weight_decay=0.05),
    'optim_wrapper.constructor': 'LearningRateDecayOptimWrapperConstructor',
    'train_dataloader.batch_size': 512 // 8,
    'auto_scale_lr.base_batch_size': 512,
    f'{WARMUP}.end': 5, f'{COSINE}.begin': 5,
    f'{TRAIN}.RandomErasing.erase_prob': 0.25,
    'model.neck.type': 'TransformerProbe', 'model.neck.drop_rate': 0.2,
    'model.head.loss.type': 'LabelSmoothLoss',
    'model.head.loss.label_smooth_val': 0.1,
}
MIX = 'model.train_cfg.augments'
FINETUNE_EACH = {
    '285m': {'train_cfg.max_epochs': 200, f'{DECAY}.layer_decay_rate': 0.90,
             MIX: None},
    '1.0g': {'train_cfg.max_epochs': 150, f'{DECAY}.layer_decay_rate': 0.90,
             MIX: 'Mixup > CutMix', f'{MIX}.Mixup.alpha': 0.2,
             f'{MIX}.CutMix.alpha': 0.25},
    '3.7g': {'train_cfg.max_epochs': 100, f'{DECAY}.layer_decay_rate': 0.85,
             MIX: 'Mixup > CutMix', f'{MIX}.Mixup.alpha': 0.8,
             f'{MIX}.CutMix.alpha': 1.0}}


def recipes():
    """Names of the configurations and what the tables say of each."""
    file = 'qbheat/benchmarks/mf-{}_{}_in1k.py'
    for e in ENCODERS:
        yield file.format(e, '8xb512-linear-coslr-90e'), {
            **LINEAR, **encoder(e, frozen=True),
            'model.neck.ClsBatchNormNeck.input_features': POOLED[e],
            'model.head.in_channels': POOLED[e]}
        sizes = {'model.neck.in_channels': LAST[e],
                 'model.neck.token_dims': TOKEN[e],
                 'model.neck.embed_dims': WIDTH[e],
                 'model.head.in_channels': WIDTH[e]}
        yield file.format(e, '8xb512-tran1-coslr-200e'), {
            **TRAN1, **sizes, **encoder(e, frozen=True), **NOT_ERASED,
            **TRAN1_EACH[e]}
        epochs = FINETUNE_EACH[e]['train_cfg.max_epochs']
        whole = {**FINETUNE, **sizes, **encoder(e, frozen=False),
                 **FINETUNE_EACH[e]}
        # "The decoder weights are initialized from tran-1 probing."
        yield file.format(e, f'8xb64-ft-tran1-coslr-{epochs}e'), {
            **whole, 'model.neck.depth': 1, 'model.backbone.init_cfg': None,
            'custom_hooks': 'RequireCheckpointHook',
            'custom_hooks.RequireCheckpointHook.origin':
                f'mf-{e}_8xb512-tran1-coslr-200e_in1k'}
        # Table "Fine-tuning on ImageNet-1K with deeper decoders"
        yield file.format(e, f'8xb64-ft-tran4-coslr-{epochs}e'), {
            **whole, 'model.neck.depth': 4, 'custom_hooks': None,
            'model.backbone.init_cfg.type': 'PretrainedEncoder'}


def on_folders(probes):
    """Probes and fine-tuning on folders of one's own: what they change.

    One GPU, and the paper's rule of the learning rate for a batch of 256.
    """
    own = {
        'train_dataloader.batch_size': 256, 'count_classes': True,
        'auto_scale_lr.base_batch_size': 256, 'val_evaluator.topk': [1],
        'default_hooks.check_classes.type': 'CheckFoldersHook',
        **{f'{part}_dataloader.dataset.{path}': value
           for part in ('train', 'val') for path, value in dict(
               type='NamedImageFolder', split=None, data_root='data/own/',
               data_prefix=part).items()}}
    for size, probe, rate in ((512, 'linear-coslr-90e', 0.1),
                              (512, 'tran1-coslr-200e', 0.0005),
                              (64, 'ft-tran1-coslr-200e', 0.0005)):
        table = dict(probes[
            f'qbheat/benchmarks/mf-285m_8xb{size}-{probe}_in1k.py'])
        if 'ft' in probe:  # begins with the encoder, as the probes do
            table |= {'model.backbone.init_cfg.type': 'PretrainedEncoder',
                      'custom_hooks': None,
                      'custom_hooks.RequireCheckpointHook.origin': None}
            del table['model.backbone.init_cfg']
        yield f'qbheat/benchmarks/mf-285m_1xb256-{probe}_own-folders.py', {
            **table, **own, 'optim_wrapper.optimizer.lr': rate * 256 / 256,
            f'{TRAIN}.LoadImageFromFile.ignore_empty': None,
            f'{VAL}.LoadImageFromFile.ignore_empty': None,
            # Until the folders are counted.
            'model.head.num_classes': 2,
            'model.data_preprocessor.num_classes': 2}


RECIPES = dict(recipes())
RECIPES |= dict(on_folders(RECIPES))


@pytest.mark.parametrize('name', RECIPES)
def test_values_that_a_source_names(name):
    assert not differences(name, RECIPES[name])


def test_every_probe_and_fine_tuning_has_a_table():
    assert_tables(find('benchmarks/'), RECIPES)


def test_what_is_said_of_maes_fine_tuning_is_in_its_recipe():
    theirs = ('mmpretrain::mae/benchmarks/'
              'vit-base-p16_8xb128-coslr-100e_in1k.py')
    table = {f'{TRAIN}.RandomResizedCrop.backend': 'pillow',
             **BICUBIC, **RAND_AUG, **INCREASING, **ERASING,
             f'{TRAIN}.RandomErasing.erase_prob': 0.25,
             f'{WARMUP}.start_factor': 1e-4, f'{WARMUP}.end': 5,
             'param_scheduler': 'LinearLR > CosineAnnealingLR',
             f'{VAL}.ResizeEdge.scale': 256, 'val_evaluator.topk': [1, 5],
             f'{VAL}.CenterCrop.crop_size': 224,
             'optim_wrapper.optimizer.betas': [0.9, 0.999],
             'optim_wrapper.optimizer.weight_decay': 0.05,
             'model.head.loss.label_smooth_val': 0.1, MIX: 'Mixup > CutMix'}
    assert not differences(theirs, table, cited(theirs))


def test_what_is_said_of_maes_probing_is_in_its_recipe():
    theirs = ('mmpretrain::mae/benchmarks/'
              'vit-base-p16_8xb2048-linear-coslr-90e_in1k.py')
    table = {'optim_wrapper.optimizer.momentum': 0.9,
             'optim_wrapper.optimizer.weight_decay': 0,
             f'{WARMUP}.start_factor': 1e-4, f'{WARMUP}.end': 10,
             'train_cfg.max_epochs': 90, 'model.neck.type': 'ClsBatchNormNeck'}
    assert not differences(theirs, table, cited(theirs))
