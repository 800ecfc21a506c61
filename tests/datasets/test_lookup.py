# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Augmentations by tables give what mmpretrain's give, to the bit."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mmpretrain.datasets.transforms import RandAugment
from mmpretrain.datasets.transforms.auto_augment import AutoContrast, Equalize
from mmpretrain.registry import TRANSFORMS

from qbheat_mm.datasets.transforms.lookup import (
    LookupAutoContrast,
    LookupEqualize,
)

PAIRS = [(LookupAutoContrast, AutoContrast), (LookupEqualize, Equalize)]
NAMES = ['AutoContrast', 'Equalize']


def image(seed, height=40, width=30, values=256, low=0):
    drawn = np.random.default_rng(seed).gamma(
        2., values / 8, (height, width, 3))
    return np.clip(drawn + low, 0, 255).astype(np.uint8)


@pytest.mark.parametrize('ours, theirs', PAIRS, ids=NAMES)
@given(seed=st.integers(0, 9999), height=st.integers(1, 60),
       width=st.integers(1, 60), values=st.integers(0, 300),
       low=st.integers(0, 255))
def test_tables_give_the_same(ours, theirs, seed, height, width, values, low):
    given = image(seed, height, width, values, low)
    before = given.copy()
    found, expected = (kind(prob=1.)(dict(img=given.copy()))['img']
                       for kind in (ours, theirs))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)
    ours(prob=1.)(dict(img=given))
    np.testing.assert_array_equal(given, before)


@pytest.mark.parametrize('ours, theirs', PAIRS, ids=NAMES)
def test_what_no_table_describes_takes_mmpretrains_path(ours, theirs):
    given = image(1).astype(np.int64)
    found, expected = (kind(prob=1.)(dict(img=given.copy()))['img']
                       for kind in (ours, theirs))
    assert found.dtype == given.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize('policies', [
    'timm_increasing',
    [dict(type='AutoContrast'), dict(type='Invert'), dict(type='Equalize')]])
def test_rand_augment_draws_the_same(policies):
    settings = dict(policies=policies, num_policies=2, total_level=10,
                    magnitude_level=9, magnitude_std=0.5)
    ours = TRANSFORMS.build(
        dict(settings, type='RandAugment', _scope_='qbheat_mm'))
    assert {type(t) for t in ours.transforms} >= {
        LookupAutoContrast, LookupEqualize}
    theirs = RandAugment(**settings)
    changed = 0
    for seed in range(60):
        given, results = image(seed), []
        for transform in (ours, theirs):
            np.random.seed(seed)
            results.append(transform(dict(
                img=given.copy(), img_shape=given.shape[:2]))['img'])
            results.append(np.random.rand())
        np.testing.assert_array_equal(results[0], results[2])
        assert results[1] == results[3]
        changed += (results[0] != given).any()
    assert changed > 30


def test_unknown_policies_are_named():
    with pytest.raises(Exception, match='timm'):
        TRANSFORMS.build(dict(
            type='RandAugment', _scope_='qbheat_mm', policies='no_such',
            num_policies=2, magnitude_level=9))
