# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Supervised training, against Mobile-Former (CVPR 2022).

Its paper has learning rate, weight decay and dropout of each network, 450
epochs and the batch; the command in its repository (timm 0.3.4) the rest:
--opt adamw --sched cosine --drop-path 0 --mixup 0.2 --aa rand-m9-mstd0.5
--remode pixel --reprob 0.2 --color-jitter 0, and timm's own --smoothing 0.1
--warmup-epochs 3 --warmup-lr 1e-4 --min-lr 1e-5.
"""
import math

import pytest
from torch import nn

from .built import ITERATIONS, build, groups_of, learning_rates
from .recipe import assert_tables, differences, flatten, under
from .shipped import find, load
from .sources import (
    COSINE,
    ENCODERS,
    ERASING,
    IMAGENET_TRAIN,
    IMAGENET_VAL,
    LAST,
    NO_DECAY,
    NO_TOKEN_DECAY,
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

# timm's _RAND_TRANSFORMS: from the least to the greatest magnitude; without
# "inc1" fewer bits are kept and more is inverted the smaller it is.
COLOURS = dict(magnitude_range=[-0.9, 0.9], random_negative_prob=0)
POLICIES = flatten([
    dict(type='AutoContrast'), dict(type='Equalize'), dict(type='Invert'),
    dict(type='Rotate', magnitude_range=[0, 30]),
    dict(type='Posterize', magnitude_range=[0, 4]),
    dict(type='Solarize', magnitude_range=[0, 256]),
    dict(type='SolarizeAdd', magnitude_range=[0, 110]),
    *(dict(type=kind, **COLOURS) for kind in (
        'ColorTransform', 'Contrast', 'Brightness', 'Sharpness')),
    *(dict(type=kind, magnitude_range=[0, top], direction=direction)
      for kind, top in (('Shear', 0.3), ('Translate', 0.45))
      for direction in ('horizontal', 'vertical'))],
    f'{TRAIN}.RandAugment.policies')
RECIPE = {
    **POLICIES,
    **IMAGENET_TRAIN, **IMAGENET_VAL, **RGB, **RUNS, **NO_DECAY,
    **NO_TOKEN_DECAY, **RAND_AUG, **ERASING,
    'optim_wrapper.type': 'OptimWrapper', 'optim_wrapper.clip_grad': None,
    'optim_wrapper.optimizer.type': 'AdamW',
    'optim_wrapper.optimizer.betas': None,
    'train_dataloader.batch_size': 1024 // 8,
    'auto_scale_lr.base_batch_size': 1024, 'train_cfg.max_epochs': 450,
    'param_scheduler': 'LinearLR > CosineAnnealingLR',
    **under(WARMUP, begin=0, end=3, by_epoch=True,
            convert_to_iter_based=True),
    **under(COSINE, begin=3, eta_min=1e-5, by_epoch=True, end=None,
            convert_to_iter_based=True),
    TRAIN: 'LoadImageFromFile > RandomResizedCrop > RandomFlip > '
           'RandAugment > RandomErasing > PackInputs',
    **under(f'{TRAIN}.RandomResizedCrop', scale=224, _scope_='qbheat_mm',
            interpolation='bilinear', crop_ratio_range=None),
    f'{TRAIN}.RandomFlip.prob': 0.5,
    f'{TRAIN}.RandomErasing.erase_prob': 0.2,
    f'{VAL}.ResizeEdge.interpolation': None,  # mmcv's, which is bilinear
    'model.head.type': 'LinearClsHead',
    'model.head.loss.type': 'LabelSmoothLoss',
    'model.head.loss.label_smooth_val': 0.1,
    'model.train_cfg.augments.type': 'Mixup',
    'model.train_cfg.augments.alpha': 0.2,
    'custom_hooks': None, 'model.backbone.type': 'MobileFormer',
    'model.backbone.init_cfg': None,
}
# Mobile-Former (CVPR 2022): learning rate, weight decay, dropout; widths of
# the last 1x1 convolution, the tokens, the hidden layer of the classifier.
V1 = {'26m': (8e-4, 0.08, 0.1, 576, 128, 1024),
      '52m': (8e-4, 0.10, 0.2, 576, 128, 1024),
      '96m': (8e-4, 0.10, 0.2, 768, 128, 1280),
      '151m': (9e-4, 0.10, 0.2, 768, 192, 1280),
      '214m': (9e-4, 0.15, 0.2, 960, 192, 1600),
      '294m': (1e-3, 0.20, 0.3, 1152, 192, 1920),
      '508m': (1e-3, 0.20, 0.3, 1440, 192, 1920)}


def recipes():
    """Names of the configurations and what the tables say of each."""
    for variant, (lr, decay, drop, last, token, hidden) in V1.items():
        yield f'mobile_former/mf-{variant}_8xb128-coslr-450e_in1k.py', {
            **RECIPE, 'optim_wrapper.optimizer.lr': lr,
            f'{WARMUP}.start_factor': 1e-4 / lr,
            'optim_wrapper.optimizer.weight_decay': decay,
            'model.backbone.arch': f'mf-{variant}',
            'model.backbone.out_indices': [-2, -1],
            **under('model.neck', type='MobileFormerV1Neck',
                    drop_rate=drop, in_channels=last, token_dims=token,
                    mid_channels=hidden),
            'model.head.in_channels': hidden}
    # Table "Fine-tuning results", row "supervised": the recipe of the largest
    for e in ENCODERS:
        yield f'mobile_former/mf-{e}_8xb128-tran1-coslr-450e_in1k.py', {
            **RECIPE, **encoder(e, frozen=False),
            'optim_wrapper.optimizer.lr': 1e-3,
            f'{WARMUP}.start_factor': 0.1,
            'optim_wrapper.optimizer.weight_decay': 0.2,
            **under('model.neck', type='TransformerProbe', drop_rate=0.3,
                    depth=1, in_channels=LAST[e], token_dims=TOKEN[e],
                    embed_dims=WIDTH[e]),
            'model.head.in_channels': WIDTH[e]}


RECIPES = dict(recipes())
every = pytest.mark.parametrize('name', RECIPES)
# One of each kind, to be built: how mmpretrain reads what the tables say.
of_each_kind = pytest.mark.parametrize('name', [
    f'mobile_former/mf-{name}-coslr-450e_in1k.py' for name in (
        '26m_8xb128', '294m_8xb128', '285m_8xb128-tran1')])


@every
def test_values_that_a_source_names(name):
    assert not differences(name, RECIPES[name])


def test_every_supervised_training_has_a_table():
    assert_tables(find('mobile_former/'), RECIPES)


@of_each_kind
def test_learning_rate_over_the_run(name, tmp_path):
    cfg = load(name)
    rates = learning_rates(cfg, tmp_path)
    top = RECIPES[name]['optim_wrapper.optimizer.lr']
    assert len(rates) == 450 * ITERATIONS
    assert rates[0] == pytest.approx(1e-4, rel=1e-3)
    assert max(rates) == rates[3 * ITERATIONS] == pytest.approx(top)
    middle = (3 + 447 // 2) * ITERATIONS
    assert rates[middle] == pytest.approx((top + 1e-5) / 2, rel=0.02)
    assert rates[-1] == pytest.approx(1e-5, rel=0.05)
    assert not math.isclose(rates[-ITERATIONS * 20], rates[-1], rel_tol=0.05)


@of_each_kind
def test_the_classifier_is_built_of_these_values(name):
    model, recipe = build(name), RECIPES[name]
    rates = {m.p for m in model.modules() if isinstance(m, nn.Dropout)}
    assert rates - {0} == {recipe['model.neck.drop_rate']}
    mixup, = model.data_preprocessor.batch_augments.augments
    assert (type(mixup).__name__, mixup.alpha) == ('Mixup', 0.2)
    assert model.head.loss_module.label_smooth_val == 0.1
    assert all(p.requires_grad for p in model.parameters())


@of_each_kind
def test_norms_biases_and_tokens_do_not_decay(name):
    model = build(name)
    norms = {f'{n}.{leaf}' for n, m in model.named_modules()
             if isinstance(m, (nn.modules.batchnorm._BatchNorm, nn.LayerNorm))
             for leaf in ('weight', 'bias')}
    for param, group in groups_of(name).items():
        free = (param in norms or param.endswith('.bias')
                or param == 'backbone.tokens')
        decay = RECIPES[name]['optim_wrapper.optimizer.weight_decay']
        assert group['weight_decay'] == (0 if free else decay), param
