# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Figures of encoders against values worked out by hand."""
import math

import pytest
import torch

from qbheat_mm.study.features import describe_maps, describe_matrices


def test_similarity_of_tokens():
    # two images of two tokens, at right angles within an image
    tokens = torch.tensor([[[1., 0.], [0., 2.]], [[3., 0.], [0., -1.]]])
    found = describe_maps(torch.randn(2, 4, 2, 2), tokens)
    assert found['token similarity'] == pytest.approx(0)
    # first tokens point the same way, second ones the opposite
    assert found['token similarity between images'] == pytest.approx(0)
    alike = describe_maps(torch.randn(5, 4, 2, 2), torch.ones(5, 3, 4))
    assert alike['token similarity'] == pytest.approx(1)
    assert alike['token similarity between images'] == pytest.approx(1)


def test_equal_positions_are_correlated():
    maps = torch.randn(3, 16, 1, 1).expand(3, 16, 4, 4)
    found = describe_maps(maps, torch.randn(3, 2, 8))
    assert found['spatial correlation'] == pytest.approx(1, abs=1e-5)


def test_matrices_of_a_checkpoint():
    a = torch.diag(torch.tensor([3., 1.]))
    b = torch.tensor([[0., 2.], [2., 0.]])  # eigenvalues 2 and -2
    weights = {'predictor.half_step.weight': torch.stack([a, b])}
    found = describe_matrices(weights)
    assert found['energy ratio, half'] == pytest.approx((3 + 1) / (2 + 2))
    # AB = [[0, 6], [2, 0]], BA = [[0, 2], [6, 0]]
    assert found['commutator, half'] == pytest.approx(
        math.sqrt(32) / math.sqrt(40))
    assert 'energy ratio, quarter' not in found
    assert describe_matrices({}) == {}
