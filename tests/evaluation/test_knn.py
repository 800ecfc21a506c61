# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Nearest neighbors, against values computed by hand."""
import math

import numpy as np

from qbheat_mm.evaluation import knn, knn_accuracy


def at(*degrees):
    """Points of different length in given directions."""
    angles = np.deg2rad(degrees)
    lengths = np.arange(1, len(degrees) + 1)[:, None]
    return lengths * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_votes_are_weighted_by_the_exponential_similarity():
    # One neighbor at 0 degrees against two at 60, cos 1 and 0.5: these win
    # where exp(1 / T) < 2 exp(0.5 / T), that is for T > 0.5 / ln 2.
    train, labels, query = at(0, 60, -60), [1, 0, 0], at(0)
    border = 0.5 / math.log(2)
    for temperature, winner in ((border - 0.01, 1), (border + 0.01, 0),
                                (1e-4, 1)):
        assert knn_accuracy(train, labels, query, [winner],
                            temperature=temperature) == 100


def test_the_defaults_are_those_of_the_papers():
    assert (knn.K, knn.TEMPERATURE) == (20, 0.07)
    # cos 1 against two at s: the border is s = 1 - 0.07 ln 2.
    for change, winner in ((-0.005, 0), (0.005, 1)):
        side = np.rad2deg(np.arccos(1 - 0.07 * math.log(2) + change))
        assert knn_accuracy(at(0, side, -side), [0, 1, 1], at(0),
                            [winner]) == 100


def test_only_k_of_them_vote():
    train, labels = at(0, 20, 21, 22), [0, 1, 1, 1]
    for k, winner in ((1, 0), (3, 1), (20, 1)):
        assert knn_accuracy(train, labels, at(1), [winner], k, 10.) == 100


def test_no_image_is_its_own_neighbor():
    assert knn_accuracy(at(0, 1, 90, 91), [0, 1, 1, 1], k=1) == 50
