# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Nearest neighbours, beside values worked out by hand."""
import math

import numpy as np
import pytest
import torch

from qbheat_mm.errors import UserError
from qbheat_mm.evaluation import knn, knn_accuracy, knn_classify


def at(*degrees):
    """Points of different length in given directions."""
    angles = np.deg2rad(degrees)
    lengths = np.arange(1, len(degrees) + 1)[:, None]
    return lengths * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_the_nearest_by_angle_whatever_the_length():
    train, labels = at(0, 90, 180), [2, 0, 1]
    assert knn_classify(train, labels, at(10, 100, 170), k=1).tolist() == [
        2, 0, 1]


def test_votes_weigh_as_the_exponential_of_the_similarity():
    # One neighbour at 0 degrees against two at 60, cos 1 and 0.5: these win
    # where exp(1 / T) < 2 exp(0.5 / T), that is for T > 0.5 / ln 2.
    train, labels, query = at(0, 60, -60), [0, 1, 1], at(0)
    border = 0.5 / math.log(2)
    for temperature, winner in ((border - 0.01, 0), (border + 0.01, 1)):
        assert knn_classify(train, labels, query, k=3,
                            temperature=temperature).tolist() == [winner]


def test_only_k_of_them_vote():
    train, labels = at(0, 20, 21, 22), [0, 1, 1, 1]
    assert knn_classify(train, labels, at(1), 1, 10.).tolist() == [0]
    assert knn_classify(train, labels, at(1), 3, 10.).tolist() == [1]
    # There are no twenty.
    assert knn_classify(train, labels, at(1), 20, 10.).tolist() == [1]


def test_no_image_is_its_own_neighbour(monkeypatch):
    train, labels = at(0, 1, 90, 91), [0, 1, 1, 1]
    expected = [1, 0, 1, 1]
    assert knn_classify(train, labels, k=1).tolist() == expected
    assert knn_accuracy(train, labels, k=1) == 50
    # The same a row at a time.
    monkeypatch.setattr(knn, '_AT_A_TIME', 1)
    assert knn_classify(train, labels, k=1).tolist() == expected


def test_chunks_change_nothing(monkeypatch):
    random = np.random.default_rng(0)
    train, queries = random.normal(size=(50, 8)), random.normal(size=(33, 8))
    labels = random.integers(0, 5, 50)
    whole = knn_classify(train, labels, queries)
    monkeypatch.setattr(knn, '_AT_A_TIME', 7 * 50)
    assert (knn_classify(train, labels, queries) == whole).all()


def test_a_small_temperature_overflows_nothing():
    assert knn_classify(at(0, 90), [0, 1], at(80), 2, 1e-4).tolist() == [1]


def test_arrays_and_tensors_alike():
    train, labels = at(0, 90), [0, 1]
    assert knn_accuracy(torch.tensor(train).half(), torch.tensor(labels),
                        at(10, 20, 80, 5), [0, 0, 0, 0], k=1) == 75


@pytest.mark.parametrize('arguments, message', [
    ((at(0, 1), [0, 1], at(0)[:, :1]), 'of 2 and of 1 numbers'),
    ((at(0, 1), [0], at(0)), 'as many labels'),
    ((at(0, 1), [0, -1], at(0)), 'label -1'),
    ((at(0), [0]), 'no neighbour'),
    ((at(0, 1)[0], [0], at(0)), r'\(2,\) are not \(N, D\)'),
    ((at(0, 1) * np.nan, [0, 1], at(0)), 'NaN or infinite'),
    ((at(0, 1), [0, 1], at(0), 0), 'k=0'),
    ((at(0, 1), [0, 1], at(0), 1.5), 'k=1.5'),
    ((at(0, 1), [0, .7], at(0)), 'fractions'),
    ((at(0, 1), np.array(['a', 'b']), at(0)), 'no numbers'),
    ((at(0, 1), [0, 1], at(0), 1, 0.), 'temperature=0'),
])
def test_impossible_input_is_named(arguments, message):
    with pytest.raises(UserError, match=message):
        knn_classify(*arguments)


def test_queries_and_their_labels_belong_together():
    for queries, labels in ((None, [1, 0]), (at(0, 1), None)):
        with pytest.raises(UserError, match='belong together'):
            knn_accuracy(at(0, 1), [0, 1], queries, labels)


def test_large_values_are_compared_by_their_angle():
    """Their squares are beyond float32."""
    train, labels = at(0, 90, 180), [2, 0, 1]
    assert knn_classify(train * 1e30, labels, at(10, 100, 170) * 1e25,
                        k=1).tolist() == [2, 0, 1]


def test_labels_of_the_queries_must_be_as_many():
    with pytest.raises(UserError, match='2 embeddings have labels of shape'):
        knn_accuracy(at(0, 1), [0, 1], at(0, 1), [0])
