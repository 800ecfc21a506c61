# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Probes of frozen encoders, and the labels that they get."""
import numpy as np
import pytest

from qbheat_mm.evaluation.features import choose_few, pool_maps
from qbheat_mm.evaluation.kernels import choose, ridge
from qbheat_mm.evaluation.probes import probe


def test_cross_validation_chooses_the_features():
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    good = np.eye(3)[labels] + 0.1 * rng.standard_normal((90, 3))
    noise = rng.standard_normal((90, 3))
    found = choose(dict(good=good[:60], noise=noise[:60]), labels[:60],
                   dict(good=good[60:], noise=noise[60:]), labels[60:])
    assert found == {'ridge': 100., 'RBF': 100., 'top-1': 100.}


def test_few_labels_are_balanced_and_part_of_more():
    labels = np.repeat([0, 1, 2], [40, 25, 10])
    some, more = choose_few(labels, 12, 0), choose_few(labels, 30, 0)
    assert np.bincount(labels[some]).tolist() == [4, 4, 4]
    assert np.bincount(labels[more]).tolist() == [10, 10, 10]
    most = choose_few(labels, 40, 0)
    assert np.bincount(labels[most]).tolist() == [15, 15, 10]
    assert {*some} < {*more}
    assert {*some} != {*choose_few(labels, 12, 1)}


def features(rng, labels):
    """Describe two classes by maps, which differ in one channel."""
    pixels = rng.normal(size=(len(labels), 8, 2, 2)).astype('f4')
    pixels[:, 0] += 4 * labels[:, None, None]
    return dict(pixels=1e4 * pixels,
                tokens=np.zeros((len(labels), 1, 1), 'f4'))


@pytest.mark.parametrize('kind, settings', [
    ('ridge', ()), ('lin', (100, 1e-2)), ('tran-1', (25, 1e-3))])
def test_probes_find_what_features_tell(kind, settings):
    rng = np.random.default_rng(0)
    labels, test_labels = rng.integers(0, 2, (2, 128))
    train, test = features(rng, labels), features(rng, test_labels)

    def accuracy(labels):
        if kind == 'ridge':
            return ridge(pool_maps(train), labels, pool_maps(test),
                         test_labels)
        return probe(kind, train, labels, test, test_labels, *settings)

    assert accuracy(labels) > 95
    assert accuracy(rng.permutation(labels)) < 75
