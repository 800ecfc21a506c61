# Copyright (c) QB-Heat MM authors. All rights reserved.
"""RandAugment gives mmpretrain's results, and timm's where they differ."""
import mmcv
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mmengine.registry import TRANSFORMS
from mmpretrain.datasets.transforms import RandAugment

from qbheat_mm.datasets.rand_augment import LookupAutoContrast, LookupEqualize


def image(seed, height=40, width=30, values=256, low=0):
    drawn = np.random.default_rng(seed).gamma(
        2., values / 8, (height, width, 3))
    return np.clip(drawn + low, 0, 255).astype(np.uint8)


COLORS = dict(magnitude_range=(-0.9, 0.9))


@pytest.mark.parametrize('kind, settings', [
    ('AutoContrast', {}), ('Equalize', {}),
    ('Contrast', COLORS), ('Contrast', dict(magnitude=0.3)),
    ('SolarizeAdd', dict(magnitude_range=(0, 110)))])
@given(seed=st.integers(0, 9999), height=st.integers(1, 60),
       width=st.integers(1, 60), values=st.integers(0, 300),
       low=st.integers(0, 255))
def test_tables_give_the_same(kind, settings, seed, height, width, values,
                              low):
    settings = dict(settings, type=kind, prob=0.9)
    if 'magnitude_range' in settings:
        settings.update(magnitude_level=9, magnitude_std=0.5)
    given = image(seed, height, width, values, low)
    before, results = given.copy(), []
    for scope in ('qbheat_mm', 'mmpretrain'):
        np.random.seed(seed)
        transform = TRANSFORMS.build(dict(settings, _scope_=scope))
        assert type(transform).__module__.startswith(scope)
        results.append(transform(dict(img=given.copy()))['img'])
        results.append(np.random.rand())
    found, after, expected, theirs = results
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)
    assert after == theirs, 'as many random numbers'
    transform(dict(img=given))
    np.testing.assert_array_equal(given, before)


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


# timm: int(level / 10 * 4), min(256, int(level / 10 * 256)) and, "Increasing",
# 4 and 256 minus these.
TIMM = [
    ('Posterize', (0, 4), {0: 0, 2.4: 0, 2.6: 1, 7.4: 2, 7.6: 3, 9: 3, 10: 4}),
    ('Posterize', (4, 0), {0: 4, 2.4: 4, 2.6: 3, 7.4: 2, 9: 1, 10: 0}),
    ('Solarize', (0, 256), {0: 0, 5: 128, 8.7: 222, 9: 230, 10: 256}),
    ('Solarize', (256, 0), {0: 256, 5: 128, 8.7: 34, 9: 26, 10: 0})]


@pytest.mark.parametrize('kind, magnitude_range, expected', TIMM)
def test_magnitudes_are_rounded_as_in_timm(kind, magnitude_range, expected):
    given = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, 2)
    function = dict(Posterize=mmcv.posterize, Solarize=mmcv.solarize)[kind]
    for level, value in expected.items():
        transform = TRANSFORMS.build(dict(
            type=kind, _scope_='qbheat_mm', prob=1., magnitude_level=level,
            magnitude_range=magnitude_range))
        np.testing.assert_array_equal(
            transform(dict(img=given.copy()))['img'], function(given, value))
