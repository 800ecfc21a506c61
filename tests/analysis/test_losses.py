# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The loss by direction, and with copied features."""
import copy

import numpy as np
import pytest
import torch

from qbheat_mm.analysis.losses import (
    copied_loss,
    direction_losses,
    direction_regions,
    masked_loss,
)
from qbheat_mm.analysis.reconstruction import (
    QUARTERS,
    reconstruct,
    trained_positions,
)
from qbheat_mm.models.selfsup.qbheat_predictor import DIRECTIONS


@pytest.mark.parametrize('settings', [
    {}, dict(position='corner'), dict(num_models=2)])
def test_copied_features_are_those_of_zero_matrices(build, settings):
    model = build(**settings)
    images = torch.randn(3, 3, 32, 32)
    before = copy.deepcopy(model.state_dict())
    loss, copied = masked_loss(model, images), copied_loss(model, images)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert loss != copied
    with torch.no_grad():
        for name, weight in model.predictor.named_parameters():
            if name.endswith('_step.weight'):
                weight.zero_()
    assert masked_loss(model, images) == pytest.approx(copied, rel=1e-6)


def test_masked_loss_is_that_of_training(build, images):
    model = build(norm_pix=False)
    expected = []
    with torch.no_grad():
        for position in trained_positions(model):
            made = reconstruct(model, images, position)
            error = (made.pred - images).square().mean(1, keepdim=True)
            expected.append(float(error[made.mask == 1].mean()))
    assert masked_loss(model, images) == pytest.approx(
        np.mean(expected), rel=1e-5)


@torch.no_grad()
def test_directions_are_those_of_the_predictor(build):
    """A changed matrix changes the map where its direction says."""
    predictor = build().predictor
    z = torch.randn(1, 20, 4, 6)
    for position in QUARTERS:
        positions = [(position, 1)]
        before = predictor(z, positions)[0]
        scale = 'quarter' if position == 'center' else 'half'
        weight = getattr(predictor, f'{scale}_step').weight
        for name, region in direction_regions(position, 8, 12).items():
            index = list(DIRECTIONS).index(name)
            kept = weight[index].clone()
            weight[index] += 1
            changed = (predictor(z, positions)[0] != before).any(-1)
            weight[index] = kept
            assert torch.equal(changed, region > 0), (position, name)


@pytest.mark.parametrize('position', ['corner', 'center'])
def test_losses_of_directions_add_up(build, images, position):
    model = build(position=position)
    losses = direction_losses(model, images)
    assert len(losses) == 8
    # A corner's diagonal is met from one corner, its sides from two; a side
    # of the center is twice as wide as a diagonal.
    weights = {name: 1 if name.count('_') > 1 else 2 for name in losses}
    total = sum(weights[name] * loss for name, loss in losses.items())
    assert total / sum(weights.values()) == pytest.approx(
        masked_loss(model, images), rel=1e-5)
