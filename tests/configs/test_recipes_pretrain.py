# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pre-training by QB-Heat, against the paper and against MAE."""
import pytest

from .built import build
from .recipe import assert_tables, cited, differences, under
from .shipped import find, load
from .sources import (
    COSINE,
    ENCODERS,
    IMAGENET_TRAIN,
    LAST,
    MAE_SCHEDULE,
    NO_DECAY,
    NO_TOKEN_DECAY,
    RGB,
    RUNS,
    TRAIN,
    WARMUP,
)

# Schedules that the paper names: Section "Main Properties on ImageNet" and
# Table "Spectrum energy ratio".
SCHEDULES = (100, 200, 400, 800, 1600, 2400)

PAPER = {
    # Table "Pre-training setting"
    **under('optim_wrapper.optimizer', type='AdamW', lr=1.5e-4 * 1024 / 256,
            weight_decay=0.1),
    'train_dataloader.batch_size': 1024 // 8,
    'auto_scale_lr.base_batch_size': 1024,
    f'{WARMUP}.end': 10, f'{COSINE}.begin': 10,
    f'{TRAIN}.RandomResizedCrop.scale': 256,
    # Section "Architecture and Implementation"
    'model.type': 'QBHeat', 'model.backbone.type': 'MobileFormer',
    'model.predictor.type': 'QBHeatPredictor',
    'model.predictor.embed_dims': 512,
    **under('model.neck', type='QBHeatDecoder', embed_dims=512, depth=6),
    'model.head.type': 'QBHeatPretrainHead',
    # Table "QB-Heat ablation experiments", the default in grey
    'model.position': 'mixed', 'model.num_models': 8,
}
# MAE, appendix A.1 and mmpretrain's recipe; names of mmpretrain's that differ
MAE = {
    **RGB, **MAE_SCHEDULE,
    'model.data_preprocessor.type': 'SelfSupDataPreprocessor',
    'optim_wrapper.type': 'AmpOptimWrapper',
    'optim_wrapper.loss_scale': 'dynamic',
    'optim_wrapper.clip_grad': None,
    'optim_wrapper.optimizer.betas': [0.9, 0.95],
    **under(f'{TRAIN}.RandomResizedCrop', crop_ratio_range=[0.2, 1.0],
            _scope_='qbheat_mm', interpolation='bicubic'),
    f'{TRAIN}.RandomFlip.prob': 0.5,
    'model.neck.num_heads': 16, 'model.neck.patch_size': 16,
    'model.head.norm_pix': True, 'model.head.patch_size': 16,
    'train_cfg.type': 'EpochBasedTrainLoop',
}
RENAMED = {'model.neck.num_heads': 'model.neck.decoder_num_heads'}
MAES = 'mmpretrain::mae/mae_vit-base-p16_8xb512-amp-coslr-300e_in1k.py'


def recipes():
    """Names of the configurations and what the tables say of each."""
    table = {**IMAGENET_TRAIN, **RUNS, **MAE, **NO_DECAY, **NO_TOKEN_DECAY,
             **PAPER, 'custom_hooks': None}
    for e in ENCODERS:
        own = {'model.backbone.arch': f'mf-{e}',
               'model.predictor.in_channels': LAST[e]}
        for n in SCHEDULES:
            yield (f'qbheat/qbheat_mf-{e}_8xb128-amp-coslr-{n}e_in1k.py',
                   {**table, **own, 'train_cfg.max_epochs': n})
    # The ablation's default row is the final result, of the last encoder.
    own['train_cfg.max_epochs'] = 2400
    for part, change in {
            'corner': {'model.position': 'corner'},
            'center': {'model.position': 'center'},
            '2models': {'model.num_models': 2},
            '4models': {'model.num_models': 4}}.items():
        name, = find('qbheat/ablation/', f'_{part}_')
        yield name, {**table, **own, **change}
    # Networks of mmpretrain: the last features are at 1/32.
    for arch, settings in {
            'resnet50': {'model.backbone.type': 'ResNet',
                         'model.backbone.depth': 50,
                         'model.predictor.in_channels': 2048},
            'convnext-tiny': {
                'model.backbone.type': 'ConvNeXt',
                'model.backbone.arch': 'tiny',
                'model.backbone.gap_before_final_norm': False,
                'model.predictor.in_channels': 768}}.items():
        yield (f'qbheat/qbheat_{arch}_8xb128-amp-coslr-100e_in1k.py',
               {**table, **settings, 'train_cfg.max_epochs': 100,
                'model.neck.patch_size': 32, 'model.head.patch_size': 32})
    # One's own images, one GPU: the paper's rule for a batch of 256, and the
    # target of which docs/evidence.md has the figures.
    yield ('qbheat/qbheat_mf-285m_1xb256-amp-coslr-400e_own-images.py', {
        **table, 'model.backbone.arch': 'mf-285m',
        'model.predictor.in_channels': LAST['285m'],
        'model.head.norm_pix': False,
        'optim_wrapper.optimizer.lr': 1.5e-4 * 256 / 256,
        'train_dataloader.batch_size': 256,
        'auto_scale_lr.base_batch_size': 256, 'train_cfg.max_epochs': 400,
        **under('train_dataloader.dataset', type='NamedImageFolder',
                split=None, with_label=False),
        f'{TRAIN}.LoadImageFromFile.ignore_empty': None})


RECIPES = dict(recipes())


@pytest.mark.parametrize('name', RECIPES)
def test_values_that_a_source_names(name):
    assert not differences(name, RECIPES[name])


def test_every_pre_training_has_a_table():
    assert_tables(find('qbheat/qbheat_') + find('ablation/'), RECIPES)


def test_what_is_said_of_mae_is_in_its_recipe():
    theirs = cited(MAES)
    # There the images' statistics stand outside of the model.
    theirs = {**theirs, **{f'model.{path}': value for path, value
                           in theirs.items() if path.startswith('data_pre')}}
    table = {RENAMED.get(path, path): value for path, value in MAE.items()}
    # Ours does the same, see tests/datasets/test_resized_crop.py.
    table[f'{TRAIN}.RandomResizedCrop.backend'] = 'pillow'
    del table[f'{TRAIN}.RandomResizedCrop._scope_']
    for path in ('end', 'T_max'):  # where our cosine ends with the training
        table.pop(f'{COSINE}.{path}')
    assert not differences(MAES, table, theirs)


def test_the_parts_are_built_of_these_sizes():
    model = build('qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py')
    assert model.position == 'mixed'
    for step in (model.predictor.half_step, model.predictor.quarter_step):
        assert step.weight.shape == (8, 512, 512)
    assert len(model.neck.blocks) == 6
    assert {block.embed_dims for block in model.neck.blocks} == {512}
    assert {block.attn.num_heads for block in model.neck.blocks} == {16}
    # MAE's blocks, an MLP of four times the width and all biases
    assert {sum(p.numel() for p in block.parameters())
            for block in model.neck.blocks} == {12 * 512**2 + 13 * 512}
    assert model.head.norm_pix and model.head.patch_size == 16
    assert all(p.requires_grad for p in model.parameters())


def test_schedules_change_the_number_of_epochs_alone():
    for e in ENCODERS:
        first, *others = (load(
            f'qbheat/qbheat_mf-{e}_8xb128-amp-coslr-{n}e_in1k.py').to_dict()
                          for n in SCHEDULES)
        first['train_cfg'].pop('max_epochs')
        for other, n in zip(others, SCHEDULES[1:]):
            assert other['train_cfg'].pop('max_epochs') == n
            assert other == first
