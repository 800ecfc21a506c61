# Copyright (c) QB-Heat MM authors. All rights reserved.
import pytest
import torch

from qbheat_mm.analysis.correlation import (
    chance_correlation,
    spatial_correlation,
)


def test_equal_positions_correlate_fully():
    vector = torch.randn(1, 16, 1, 1)
    assert float(spatial_correlation(vector.expand(1, 16, 3, 4))) == (
        pytest.approx(1, abs=1e-5))
    # Also up to sign, scale and an offset of all channels.
    factors = torch.tensor([[1., -2.], [.5, 3.]])[None, None]
    assert float(spatial_correlation(vector * factors + 7)) == (
        pytest.approx(1, abs=1e-5))


def test_independent_positions_correlate_by_chance():
    for channels in (8, 128):
        feats = torch.randn(20, channels, 5, 5)
        found = float(spatial_correlation(feats).mean())
        assert found == pytest.approx(chance_correlation(channels), rel=0.03)
    assert chance_correlation(100000) < 0.003
    # Three channels: correlations of two free dimensions, |cos| of an angle.
    assert chance_correlation(3) == pytest.approx(2 / torch.pi)


def test_images_are_separate_and_dead_positions_count_as_zero():
    feats = torch.randn(1, 8, 2, 2)
    dead = feats.clone()
    dead[:, :, 0, 0] = 3.
    both = spatial_correlation(torch.cat([feats, dead]))
    assert float(both[0]) == pytest.approx(float(spatial_correlation(feats)))
    assert torch.isfinite(both).all()
    # Three of the six pairs are left.
    vectors = feats[0].flatten(1)[:, 1:].T
    correlations = torch.corrcoef(vectors).abs()[[0, 0, 1], [1, 2, 2]]
    assert float(both[1]) == pytest.approx(float(correlations.sum() / 6))
