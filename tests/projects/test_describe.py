# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Figures of encoders against values worked out by hand."""
import math
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope, init_default_scope

from projects.drawn_world.study.describe import (
    describe_linear_models,
    describe_maps,
    describe_matrices,
)
from qbheat_mm.analysis.matrices import SCALES
from qbheat_mm.errors import UserError

CONFIG = Path(__file__).parents[2] / (
    'projects/drawn_world/configs/qbheat_mf-demo_pretrain.py')


def build(**settings):
    """The demo's model with other settings."""
    init_default_scope('mmpretrain')
    torch.manual_seed(0)
    built = MODELS.build(dict(Config.fromfile(CONFIG).model, **settings))
    DefaultScope._instance_dict.clear()
    return built.eval()


@pytest.fixture
def model():
    """The demo's model, all matrices of which are 0."""
    built = build()
    for scale in SCALES:
        getattr(built.predictor, f'{scale}_step').weight.data.zero_()
    return built


def set_matrices(model, scale, **by_direction):
    linear = getattr(model.predictor, f'{scale}_step')
    for name, matrix in by_direction.items():
        index = linear.explicit.index(name)
        linear.weight.data[index] = matrix


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
    a = torch.diag(torch.tensor([3., 2.]))
    b = torch.tensor([[0., 2.], [2., 0.]])  # eigenvalues 2 and -2
    weights = {'predictor.half_step.weight': torch.stack([a, b])}
    found = describe_matrices(weights)
    assert found['energy ratio, half'] == pytest.approx((3 + 2) / (2 + 2))
    # AB = [[0, 6], [4, 0]], BA = [[0, 4], [6, 0]]
    assert found['commutator, half'] == pytest.approx(
        math.sqrt(8) / math.sqrt(52))
    assert 'energy ratio, quarter' not in found
    assert describe_matrices({}) == {}


def test_linear_models_that_are_one_flow(model):
    """A half is two quarters; diagonals are what A and B derive."""
    size = model.predictor.half_step.weight.shape[-1]
    images = torch.randn(2, 3, 128, 128)
    quarter = torch.block_diag(*[torch.tensor([[0., -.1], [.1, 0.]])]
                               * (size // 2))  # turns: no real eigenvalue
    half = 2 * quarter + quarter @ quarter
    for scale, matrix in (('quarter', quarter), ('half', half)):
        set_matrices(model, scale, right=matrix, down=matrix)
    found = describe_linear_models(model, images)
    assert found['rank'] == found['complex eigenvalues'] == 1
    assert found['scales, two quarters'] == pytest.approx(0, abs=1e-6)
    # |quarter| = 0.1 and |half| = |1 + 0.1i|^2 - 1
    assert found['spectral norm'] == pytest.approx(
        (0.1 + abs((1 + 0.1j)**2 - 1)) / 2, rel=1e-5)
    assert found['scales, spectra'] == pytest.approx(1, abs=1e-6)
    assert found['loss if copied'] != 1
    # the learned diagonals are 0 still
    assert found['diagonals'] == pytest.approx(1)


def test_models_of_one_scale_are_refused():
    with pytest.raises(UserError, match=r"linear models of \['quarter'\]"):
        describe_linear_models(build(position='center'),
                               torch.randn(2, 3, 128, 128))
