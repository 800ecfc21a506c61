# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Numbers that cannot be are refused where a part is built."""
import pytest
import torch
from mmpretrain.registry import MODELS

from qbheat_mm.errors import UserError

ARCH = dict(
    stem=4, tokens=(2, 8), conv=16,
    stages=[[('lite', 8, 4)], [('mf-down', 16, 8), ('mf', 16, 8)]])
PARTS = dict(
    MobileFormer=dict(arch=ARCH),
    MobileFormerV1Neck=dict(in_channels=8, token_dims=8, mid_channels=8),
    TransformerProbe=dict(in_channels=8, token_dims=8, embed_dims=16),
    QBHeatDecoder=dict(embed_dims=8, depth=1, num_heads=2, patch_size=4),
    QBHeatPredictor=dict(in_channels=8, embed_dims=8),
    QBHeatPretrainHead=dict(patch_size=4))
# What is neither a size, nor a count.
SIZES = (0, -1, 1.5, '8', None, True, [8])
RATES = (-1, 1, 1.5, '0', None, float('nan'))


def cases():
    sizes = dict(
        MobileFormerV1Neck=('in_channels', 'token_dims', 'mid_channels'),
        TransformerProbe=('in_channels', 'token_dims', 'embed_dims', 'depth',
                          'mlp_ratio'),
        QBHeatDecoder=('embed_dims', 'depth', 'num_heads', 'mlp_ratio',
                       'patch_size'),
        QBHeatPredictor=('in_channels', 'embed_dims'),
        QBHeatPretrainHead=('patch_size', ))
    rates = dict(
        MobileFormer=('drop_path_rate', ), MobileFormerV1Neck=('drop_rate', ),
        TransformerProbe=('drop_rate', ))
    for table, wrong in ((sizes, SIZES), (rates, RATES)):
        for part, names in table.items():
            for name in names:
                yield from ((part, name, value) for value in wrong)
    for value in (1.5, '5', None, True, 9):
        yield 'MobileFormer', 'frozen_stages', value
    for value in ('a', 1.5, [], ['a'], [9]):
        yield 'MobileFormer', 'out_indices', value
    yield 'TransformerProbe', 'num_heads', 3
    yield 'TransformerProbe', 'num_heads', -1
    yield 'QBHeatDecoder', 'num_heads', 3
    yield 'QBHeatDecoder', 'embed_dims', 6


@pytest.mark.parametrize('part', sorted(PARTS))
def test_numbers_that_cannot_be(part):
    MODELS.build(dict(type=part, **PARTS[part]))
    for name, value in ((n, v) for p, n, v in cases() if p == part):
        with pytest.raises(UserError) as error:
            MODELS.build(dict(PARTS[part], type=part, **{name: value}))
        assert name in str(error.value) and '\n' not in str(error.value)


@pytest.mark.parametrize('change', [
    dict(stem=0), dict(stem='4'), dict(tokens=(0, 8)), dict(tokens=(2, )),
    dict(tokens=8), dict(conv=-1), dict(groups=0), dict(groups=1.5),
    dict(stages=[]), dict(stages=[[]]), dict(stages=[('lite', 8, 4)]),
    dict(stages=[[('lite', 8)]]), dict(stages=[[('lite', 0, 4)]]),
    dict(stages=[[('lite', 9, 4)]]), dict(stages=[[('mf', 8, 5)]]),
    dict(groups=3), dict(tokens=(2, 6)), dict(final_bridge='yes'),
])
def test_impossible_variants(change):
    arch = {**ARCH, **change}
    with pytest.raises(UserError) as error:
        MODELS.build(dict(type='MobileFormer', arch=arch))
    assert '\n' not in str(error.value)


def qbheat(**parts):
    settings = dict(
        type='QBHeat',
        backbone=dict(type='MobileFormer', arch=ARCH),
        predictor=dict(type='QBHeatPredictor', in_channels=16, embed_dims=8),
        neck=dict(type='QBHeatDecoder', **PARTS['QBHeatDecoder']),
        head=dict(type='QBHeatPretrainHead', patch_size=4))
    for name, change in parts.items():
        settings[name] = dict(settings[name], **change)
    return MODELS.build(settings)


def test_parts_of_the_pre_training_agree():
    assert torch.isfinite(
        qbheat()(torch.randn(2, 3, 32, 32), mode='loss')['loss'])
    with pytest.raises(UserError, match='predictor.embed_dims=16 and model.n'):
        qbheat(predictor=dict(embed_dims=16))
    with pytest.raises(UserError, match='neck.patch_size=8 and model.head.pa'):
        qbheat(neck=dict(patch_size=8))
