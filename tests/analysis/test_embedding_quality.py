# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Ranks and similarities beside values that are known."""
import copy
import math

import pytest
import torch

from qbheat_mm.analysis.embedding_quality import (
    describe_embeddings,
    effective_rank,
    mean_similarity,
)


def test_effective_rank_of_known_spectra():
    assert effective_rank(torch.eye(5)) == pytest.approx(5, rel=1e-4)
    assert effective_rank(torch.ones(7, 4)) == pytest.approx(1, rel=1e-4)
    assert effective_rank(torch.zeros(7, 4)) == 0
    # Singular values 3 and 1: shares 3/4 and 1/4.
    entropy = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert effective_rank(torch.diag(torch.tensor([3., 1.]))) == pytest.approx(
        math.exp(entropy), rel=1e-4)


def test_mean_similarity_is_that_of_all_pairs():
    vectors = torch.randn(3, 6, 4)
    unit = vectors / vectors.norm(dim=-1, keepdim=True)
    pairs = [(i, j) for i in range(6) for j in range(6) if i != j]
    for found, rows in zip(mean_similarity(vectors), unit):
        expected = sum(float(rows[i] @ rows[j]) for i, j in pairs) / 30
        assert float(found) == pytest.approx(expected, abs=1e-6)
    assert float(mean_similarity(torch.eye(4))) == pytest.approx(0, abs=1e-9)


def test_of_a_model(build):
    model = build()
    model.train()
    images = torch.randn(5, 3, 32, 32)
    before = copy.deepcopy(model.state_dict())
    found = describe_embeddings(model, images.split(2))
    assert model.training and model.backbone.training
    assert model.backbone.out_indices == (2, )
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    model.eval()
    model.backbone.out_indices = (2, 3)
    with torch.no_grad():
        maps, tokens = model.backbone(images)
    pooled = maps.mean((2, 3))
    assert found == pytest.approx(dict(
        effective_rank=effective_rank(pooled),
        embedding_similarity=float(mean_similarity(pooled)),
        feature_similarity=float(mean_similarity(
            maps.flatten(2).transpose(1, 2)).mean()),
        token_similarity=float(mean_similarity(tokens).mean()),
        token_similarity_across_images=float(mean_similarity(
            tokens.transpose(0, 1)).mean())), rel=1e-4)
