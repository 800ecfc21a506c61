# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The paper's tables of settings against what mmengine makes of the configs.

The cells are written from the paper; a dict has one value per encoder.
"""
import math

import pytest
from torch import nn

from .built import ITERATIONS, build, groups_of, learning_rates
from .shipped import find, load

ENCODERS = ('285m', '1.0g', '3.7g')

PRETRAIN = dict(
    optimizer='AdamW', base_lr=1.5e-4, weight_decay=0.1, batch=1024,
    warmup=10, image=256, rand_aug=None, erase=0, amp=True)
LINEAR = dict(
    optimizer='SGD', base_lr=0.1, weight_decay=0, batch=4096, warmup=10,
    epochs=90, image=224, rand_aug=None, erase=0, smoothing=0, dropout=0,
    mixup=0, cutmix=0, frozen=True)
TRAN1 = dict(
    optimizer='AdamW', base_lr=0.0005, weight_decay=0.1, batch=4096,
    warmup=10, epochs=200, image=224, rand_aug=(9, 0.5), smoothing=0.1,
    dropout={'285m': 0.1, '1.0g': 0.2, '3.7g': 0.2},
    erase={'285m': 0, '1.0g': 0, '3.7g': 0.25},
    mixup=0, cutmix=0, width={'285m': 192, '1.0g': 384, '3.7g': 768},
    blocks=1, frozen=True)
FINETUNE = dict(
    optimizer='AdamW', base_lr=0.0005, weight_decay=0.05, batch=512,
    layer_decay={'285m': 0.90, '1.0g': 0.90, '3.7g': 0.85}, warmup=5,
    epochs={'285m': 200, '1.0g': 150, '3.7g': 100}, image=224,
    rand_aug=(9, 0.5), smoothing=0.1,
    mixup={'285m': 0, '1.0g': 0.2, '3.7g': 0.8},
    cutmix={'285m': 0, '1.0g': 0.25, '3.7g': 1.0}, dropout=0.2, erase=0.25,
    width={'285m': 192, '1.0g': 384, '3.7g': 768}, frozen=False)

# Schedules that the paper names: Section "Main Properties on ImageNet" and
# Table "Spectrum energy ratio".
SCHEDULES = (100, 200, 400, 800, 1600, 2400)


def recipes():
    """(config, cells of the paper) for every encoder and schedule."""
    benchmarks = 'qbheat/benchmarks/mf-{}_{}_in1k.py'
    for e in ENCODERS:
        for n in SCHEDULES:
            yield (f'qbheat/qbheat_mf-{e}_8xb128-amp-coslr-{n}e_in1k.py',
                   dict(PRETRAIN, epochs=n, encoder=e))
        ft = f'8xb64-ft-tran%d-coslr-{FINETUNE["epochs"][e]}e'
        for file, cells in (('8xb512-linear-coslr-90e', LINEAR),
                            ('8xb512-tran1-coslr-200e', TRAN1),
                            (ft % 1, dict(FINETUNE, blocks=1)),
                            (ft % 4, dict(FINETUNE, blocks=4))):
            cells = {key: value[e] if isinstance(value, dict) else value
                     for key, value in cells.items()}
            yield benchmarks.format(e, file), dict(cells, encoder=e)


RECIPES = dict(recipes())
every_recipe = pytest.mark.parametrize('name', RECIPES)


@every_recipe
def test_optimizer_and_batch(name):
    cfg, paper = load(name), RECIPES[name]
    optimizer = cfg.optim_wrapper.optimizer
    assert optimizer.type == paper['optimizer']
    assert optimizer.weight_decay == paper['weight_decay']
    # lr = base lr * batch / 256
    assert optimizer.lr == pytest.approx(
        paper['base_lr'] * paper['batch'] / 256)
    assert (cfg.optim_wrapper.type == 'AmpOptimWrapper') == paper.get(
        'amp', False)
    assert 8 * cfg.train_dataloader.batch_size == paper['batch']
    assert cfg.auto_scale_lr.base_batch_size == paper['batch']
    assert cfg.train_cfg.max_epochs == paper['epochs']


@every_recipe
def test_learning_rate_over_the_run(name, tmp_path):
    cfg, paper = load(name), RECIPES[name]
    rates = learning_rates(cfg, tmp_path)
    top, warmup = cfg.optim_wrapper.optimizer.lr, paper['warmup']
    assert len(rates) == paper['epochs'] * ITERATIONS
    assert rates[0] < 0.01 * top
    # linear up
    middle = warmup * ITERATIONS // 2
    assert rates[middle] == pytest.approx(top / 2, rel=0.06)
    # cosine down
    for part in (0, 0.25, 0.5, 0.75):
        epoch = warmup + part * (paper['epochs'] - warmup)
        expected = top * (1 + math.cos(math.pi * part)) / 2
        assert rates[round(epoch * ITERATIONS)] == pytest.approx(
            expected, rel=0.06), part
    assert max(rates) == pytest.approx(top)
    assert rates[-1] < 0.01 * top


@every_recipe
def test_data(name):
    cfg, paper = load(name), RECIPES[name]
    transforms = {t.type: t for t in cfg.train_dataloader.dataset.pipeline}
    assert transforms['RandomResizedCrop'].scale == paper['image']
    assert transforms['RandomFlip'].prob == 0.5
    augment = transforms.get('RandAugment')
    if paper['rand_aug'] is None:
        assert augment is None
    else:
        level, std = paper['rand_aug']
        assert augment.policies == 'timm_increasing'
        assert augment.num_policies == 2
        assert augment.magnitude_level / augment.total_level == level / 10
        assert augment.magnitude_std == std
    erasing = transforms.get('RandomErasing', dict(erase_prob=0))
    assert erasing['erase_prob'] == paper['erase']
    if 'val_dataloader' in cfg:  # "a single 224x224 crop"
        test = [t.type for t in cfg.val_dataloader.dataset.pipeline]
        assert test[1:3] == ['ResizeEdge', 'CenterCrop']
        assert cfg.val_dataloader.dataset.pipeline[2].crop_size == 224


@pytest.mark.parametrize(
    'name', [name for name in RECIPES if 'benchmarks' in name])
def test_classifier(name):
    model, paper = build(name), RECIPES[name]
    trained = any(p.requires_grad for p in model.backbone.parameters())
    assert trained != paper['frozen']
    assert getattr(model.head.loss_module, 'label_smooth_val',
                   0) == paper['smoothing']
    rates = [m.p for m in model.neck.modules()
             if isinstance(m, nn.Dropout) and m.p > 0]
    assert rates == ([paper['dropout']] if paper['dropout'] else [])
    augments = model.data_preprocessor.batch_augments
    alphas = {type(a).__name__: a.alpha for a in augments.augments} \
        if augments else {}
    assert alphas.get('Mixup', 0) == paper['mixup']
    assert alphas.get('CutMix', 0) == paper['cutmix']
    if 'width' in paper:
        assert model.head.in_channels == paper['width']
        assert len(model.neck.blocks) == paper['blocks']
        assert model.neck.blocks[0].embed_dims == paper['width']
    else:  # an extra BN without affine transformation
        norm = model.neck[1].bn
        assert not norm.affine and norm.num_features == model.head.in_channels


@pytest.mark.parametrize('name', find('benchmarks/', '-ft-'))
def test_layer_wise_decay(name):
    # on folders of one's own as on ImageNet
    of_paper = name.replace('1xb256', '8xb64').replace('own-folders', 'in1k')
    cfg, paper = load(name), RECIPES[of_paper]
    groups = groups_of(name)
    top, decay = cfg.optim_wrapper.optimizer.lr, paper['layer_decay']
    # 12 blocks between the stem and the last convolution, then the decoder
    depths = {'backbone.stem.0.weight': 0, 'backbone.tokens': 0,
              'backbone.stages.0.0.depthwise.0.weight': 1,
              'backbone.stages.1.0.former.proj.weight': 2,
              'backbone.stages.3.5.former.proj.weight': 12,
              'backbone.conv.1.weight': 13, 'neck.pixel_proj.weight': 14,
              'head.fc.weight': 14}
    for param, depth in depths.items():
        assert groups[param]['lr'] == pytest.approx(
            top * decay**(14 - depth)), param


@every_recipe
def test_norms_biases_and_tokens_do_not_decay(name):
    model, paper = build(name), RECIPES[name]
    norms = {f'{n}.{leaf}' for n, m in model.named_modules()
             if isinstance(m, (nn.modules.batchnorm._BatchNorm, nn.LayerNorm))
             for leaf in ('weight', 'bias')}
    for param, group in groups_of(name).items():
        free = (param in norms or param.endswith('.bias')
                or param.endswith('backbone.tokens'))
        assert group['weight_decay'] == (
            0 if free else paper['weight_decay']), param
