# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The papers' tables, compared with what mmengine builds from the configs.

Dicts within a table have one value per encoder.
"""
import functools
import math

import pytest
import torch
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..helpers.runs import learning_rates
from ..helpers.shipped import find, load
from .reference import resolved

ENCODERS = ('285m', '1.0g', '3.7g')

# Table 9
PRETRAIN = dict(
    optimizer='AdamW', base_lr=1.5e-4, weight_decay=0.1, batch=1024,
    warmup=10, image=256, rand_aug=None, erase=0, amp=True)
# Table 10
LINEAR = dict(
    optimizer='SGD', base_lr=0.1, weight_decay=0, batch=4096, warmup=10,
    epochs=90, image=224, rand_aug=None, erase=0, smoothing=0, dropout=0,
    mixup=0, cutmix=0, frozen=True)
# Table 11
TRAN1 = dict(
    optimizer='AdamW', base_lr=0.0005, weight_decay=0.1, batch=4096,
    warmup=10, epochs=200, image=224, rand_aug=(9, 0.5), smoothing=0.1,
    dropout={'285m': 0.1, '1.0g': 0.2, '3.7g': 0.2},
    erase={'285m': 0, '1.0g': 0, '3.7g': 0.25},
    mixup=0, cutmix=0, width={'285m': 192, '1.0g': 384, '3.7g': 768},
    blocks=1, frozen=True)
# Table 12
FINETUNE = dict(
    optimizer='AdamW', base_lr=0.0005, weight_decay=0.05, batch=512,
    layer_decay={'285m': 0.90, '1.0g': 0.90, '3.7g': 0.85}, warmup=5,
    epochs={'285m': 200, '1.0g': 150, '3.7g': 100}, image=224,
    rand_aug=(9, 0.5), smoothing=0.1,
    mixup={'285m': 0, '1.0g': 0.2, '3.7g': 0.8},
    cutmix={'285m': 0, '1.0g': 0.25, '3.7g': 1.0}, dropout=0.2, erase=0.25,
    width={'285m': 192, '1.0g': 384, '3.7g': 768}, frozen=False)
# Section 6.1 and Table 3
SCHEDULES = (100, 200, 400, 800, 1600, 2400)

# Sections 4.2 and 4.1; betas and patch
# normalization are MAE's, since the paper does not state them.
QBHEAT = {
    'model.predictor.embed_dims': 512, 'model.neck.embed_dims': 512,
    'model.neck.depth': 6, 'model.neck.num_heads': 16,
    'model.head.norm_pix': True, 'model.head.patch_size': 16,
    'model.position': 'mixed', 'model.num_models': 8,
    'optim_wrapper.optimizer.betas': [0.9, 0.95],
}
ABLATIONS = dict(
    corner={'model.position': 'corner'}, center={'model.position': 'center'},
    **{f'{n}models': {'model.num_models': n} for n in (2, 4)})

# Appendix B.2; losses and costs of DETR
DETR = {
    'optim_wrapper.optimizer.type': 'AdamW',
    'optim_wrapper.optimizer.weight_decay': 1e-4,
    'optim_wrapper.clip_grad.max_norm': 0.1,
    'param_scheduler': 'MultiStepLR', 'param_scheduler.MultiStepLR.gamma': 0.1,
    'auto_scale_lr.base_batch_size': 16,
    'model.dropout': 0.1, 'model.num_queries': 100,
    'model.bbox_head.num_classes': 80,
    'model.bbox_head.loss_cls.bg_cls_weight': 0.1,
    'model.bbox_head.loss_cls.loss_weight': 1.0,
    'model.bbox_head.loss_bbox.loss_weight': 5.0,
    'model.bbox_head.loss_iou.loss_weight': 2.0,
    **{f'model.train_cfg.assigner.match_costs.{cost}.weight': weight
       for cost, weight in (('ClassificationCost', 1.0), ('BBoxL1Cost', 5.0),
                            ('IoUCost', 2.0))},
    'val_dataloader.dataset.pipeline.Resize.scale': [1333, 800],
}
# "500 epochs ... 1e-4 ... drops by a factor of 10 after 400 epochs"
FROZEN_DETR = {
    'optim_wrapper.optimizer.lr': 1e-4, 'train_cfg.max_epochs': 500,
    'param_scheduler.MultiStepLR.milestones': [400],
    'model.backbone.frozen_stages': 5,
    'model.backbone.init_cfg.type': 'PretrainedEncoder'}
# "200 epochs from decoder probing ... 1e-5 which drops to 1e-6 after 150"
TUNED_DETR = {
    'optim_wrapper.optimizer.lr': 1e-5, 'train_cfg.max_epochs': 200,
    'param_scheduler.MultiStepLR.milestones': [150],
    'model.backbone.frozen_stages': -1, 'model.backbone.norm_eval': True}
DEPTHS = {'522': [5, 2, 2], '211': [2, 1, 1]}
# Table 8: 1/8 and last features
CHANNELS = {'285m': [48, 720], '1.0g': [96, 1440], '3.7g': [192, 2880]}
# mmdet's 1x recipe
RETINANET = {
    'optim_wrapper.optimizer.type': 'SGD', 'optim_wrapper.optimizer.lr': 0.01,
    'optim_wrapper.optimizer.weight_decay': 1e-4,
    'train_cfg.max_epochs': 12,
    'param_scheduler.MultiStepLR.milestones': [8, 11],
    'auto_scale_lr.base_batch_size': 16, 'model.backbone.frozen_stages': 5,
    'model.bbox_head.anchor_generator.strides': [8, 16, 32, 64, 128]}

# Mobile-Former (CVPR 2022), Table of training: learning rate, weight decay,
# dropout; mixup, erasing and schedule of the command in its repository.
V1 = {'26m': (8e-4, 0.08, 0.1), '52m': (8e-4, 0.10, 0.2),
      '96m': (8e-4, 0.10, 0.2), '151m': (9e-4, 0.10, 0.2),
      '214m': (9e-4, 0.15, 0.2), '294m': (1e-3, 0.20, 0.3),
      '508m': (1e-3, 0.20, 0.3)}
SUPERVISED = {
    'optim_wrapper.optimizer.type': 'AdamW', 'train_cfg.max_epochs': 450,
    'auto_scale_lr.base_batch_size': 1024, 'train_dataloader.batch_size': 128,
    'model.head.loss.label_smooth_val': 0.1,
    'model.train_cfg.augments.type': 'Mixup',
    'model.train_cfg.augments.alpha': 0.2,
    'train_dataloader.dataset.pipeline.RandAugment.magnitude_level': 9,
    'train_dataloader.dataset.pipeline.RandomErasing.erase_prob': 0.2}

# He et al., Section 3.3 (K, m, dimension); MoCo-v2's --moco-t 0.2 --mlp --cos
MOCO = {
    'model.queue_len': 65536, 'model.feat_dim': 128, 'model.momentum': 0.001,
    'model.head.temperature': 0.2, 'optim_wrapper.optimizer.type': 'SGD',
    'optim_wrapper.optimizer.lr': 0.03,
    'optim_wrapper.optimizer.weight_decay': 1e-4,
    'auto_scale_lr.base_batch_size': 256, 'train_cfg.max_epochs': 200}


def value_tables():
    """Yield (config, {path: value}) for tables of plain values."""
    for e in ENCODERS:
        yield f'qbheat/qbheat_mf-{e}_8xb128-amp-coslr-100e_in1k.py', QBHEAT
        for head, depths in DEPTHS.items():
            own = {'model.depths': depths, 'model.in_channels': CHANNELS[e]}
            start = f'qbheat/coco/mf-dec-{head}_mf-{e}'
            yield (f'{start}_frozen_8xb2-500e_coco.py',
                   {**DETR, **FROZEN_DETR, **own})
            yield (f'{start}_ft_8xb2-200e_coco.py',
                   {**DETR, **TUNED_DETR, **own})
        yield (f'qbheat/coco/retinanet_mf-{e}_fpn_frozen_8xb2-1x_coco.py',
               {**RETINANET, 'model.neck.in_channels': CHANNELS[e]})
        yield f'mocov2/mocov2_mf-{e}_8xb32-coslr-200e_in1k.py', MOCO
    for part, change in ABLATIONS.items():
        name, = find('qbheat/ablation/', f'_{part}_')
        yield name, {**QBHEAT, **change, 'train_cfg.max_epochs': 2400}
    for variant, (lr, decay, drop) in V1.items():
        yield f'mobile_former/mf-{variant}_8xb128-coslr-450e_in1k.py', {
            **SUPERVISED, 'optim_wrapper.optimizer.lr': lr,
            'optim_wrapper.optimizer.weight_decay': decay,
            'model.neck.drop_rate': drop}


@pytest.mark.parametrize('name, table', value_tables())
def test_values_of_the_papers(name, table):
    leaves = resolved(name)
    assert {path: leaves.get(path) for path in table} == table


def recipes():
    """Yield (config, row of the paper) for each encoder and schedule."""
    benchmarks = 'qbheat/benchmarks/mf-{}_{}_in1k.py'
    for e in ENCODERS:
        for n in SCHEDULES:
            yield (f'qbheat/qbheat_mf-{e}_8xb128-amp-coslr-{n}e_in1k.py',
                   dict(PRETRAIN, epochs=n, encoder=e))
        ft = f'8xb64-ft-tran%d-coslr-{FINETUNE["epochs"][e]}e'
        for file, row in (('8xb512-linear-coslr-90e', LINEAR),
                          ('8xb512-tran1-coslr-200e', TRAN1),
                          (ft % 1, dict(FINETUNE, blocks=1)),
                          (ft % 4, dict(FINETUNE, blocks=4))):
            row = {key: value[e] if isinstance(value, dict) else value
                   for key, value in row.items()}
            yield benchmarks.format(e, file), dict(row, encoder=e)


RECIPES = dict(recipes())
# The schedules of one encoder differ only in length.
VARIED = [name for name in RECIPES
          if 'benchmarks' in name or '-100e' in name or '-2400e' in name]
ITERATIONS = 4  # per epoch
every_recipe = pytest.mark.parametrize('name', RECIPES)
every_kind = pytest.mark.parametrize('name', VARIED)


@functools.cache
def build(name):
    """Build the model of a config on the meta device."""
    cfg = load(name)
    if 'data_preprocessor' in cfg:  # as the runner does
        cfg.model.setdefault('data_preprocessor', cfg.data_preprocessor)
    with DefaultScope.overwrite_default_scope(cfg.default_scope), \
            torch.device('meta'):
        return MODELS.build(cfg.model)


@functools.cache
def wrapper_of(name):
    """Build the optimizer of a config, without AMP."""
    wrapper = dict(load(name).optim_wrapper, type='OptimWrapper')
    wrapper.pop('loss_scale', None)
    with DefaultScope.overwrite_default_scope(load(name).default_scope):
        return build_optim_wrapper(build(name), wrapper)


def groups_of(name):
    """Map trained parameters to their settings."""
    names = {id(p): name for name, p in build(name).named_parameters()}
    return {names[id(p)]: group for group in wrapper_of(name).param_groups
            for p in group['params'] if p.requires_grad}


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


@every_kind
def test_learning_rate_over_the_run(name):
    cfg, paper = load(name), RECIPES[name]
    rates = learning_rates(
        cfg.param_scheduler, cfg.train_cfg.max_epochs, ITERATIONS)
    warmup = paper['warmup']
    assert rates[0] < 0.01
    # linear warm-up
    middle = warmup * ITERATIONS // 2
    assert rates[middle] == pytest.approx(1 / 2, rel=0.06)
    # cosine decay
    for part in (0, 0.25, 0.5, 0.75):
        epoch = warmup + part * (paper['epochs'] - warmup)
        expected = (1 + math.cos(math.pi * part)) / 2
        assert rates[round(epoch * ITERATIONS)] == pytest.approx(
            expected, rel=0.06), part
    assert max(rates) == pytest.approx(1)
    assert rates[-1] < 0.01


@every_kind
def test_data(name):
    cfg, paper = load(name), RECIPES[name]
    transforms = {t.type: t for t in cfg.train_dataloader.dataset.pipeline}
    crop = next(t for kind, t in transforms.items()
                if kind.endswith('RandomResizedCrop'))
    assert crop.scale == paper['image']
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
    # own folders use the settings of ImageNet
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


@every_kind
def test_norms_biases_and_tokens_do_not_decay(name):
    model, paper = build(name), RECIPES[name]
    norms = set()
    for part, layer in model.named_modules():
        if isinstance(layer, (nn.modules.batchnorm._BatchNorm, nn.LayerNorm)):
            norms |= {f'{part}.weight', f'{part}.bias'}
    for param, group in groups_of(name).items():
        free = (param in norms or param.endswith('.bias')
                or param.endswith('backbone.tokens'))
        assert group['weight_decay'] == (
            0 if free else paper['weight_decay']), param


def test_the_encoder_of_an_end_to_end_detector_learns_ten_times_slower():
    name, = find('294m_e2e_')
    groups = groups_of(name)
    rates = {param.split('.')[0]: group['lr']
             for param, group in groups.items()}
    assert rates['backbone'] == pytest.approx(rates['bbox_head'] / 10)
