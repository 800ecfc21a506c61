# Copyright (c) QB-Heat MM authors. All rights reserved.
import math

import pytest
import torch

from qbheat_mm.analysis.matrices import derive, learned_matrices
from qbheat_mm.analysis.spectrum import (
    commutator,
    describe_matrix,
    describe_predictor,
    eigenvalues,
    overlap,
    random_like,
    random_magnitudes,
)


def similar(values, seed=0):
    """A matrix with these eigenvalues in a random basis."""
    torch.manual_seed(seed)
    basis = torch.randn(len(values), len(values), dtype=torch.float64)
    diagonal = torch.diag(torch.tensor(values, dtype=torch.float64))
    return basis @ diagonal @ torch.linalg.inv(basis)


def test_known_eigenvalues():
    matrix = similar([-3., 0.5, 2., 1.])
    values = eigenvalues(matrix)
    assert values.real.tolist() == pytest.approx([-3., 2., 1., 0.5])
    numbers = describe_matrix(matrix)
    assert numbers['energy'] == pytest.approx(6.5)
    assert numbers['complex_share'] == 0
    assert overlap(values, eigenvalues(similar([5., 30., 20., -10.], 1))) == (
        pytest.approx(1))
    # (1, 0) against (1/2, 1/2) shares one half.
    assert overlap(torch.eye(2)[0], torch.ones(2)) == pytest.approx(0.5)
    # A quarter turn times 2 beside one real eigenvalue.
    turn = torch.tensor([[0., -2., 0.], [2., 0., 0.], [0., 0., 5.]])
    assert eigenvalues(turn).abs().tolist() == pytest.approx([5, 2, 2])
    assert describe_matrix(turn)['complex_share'] == pytest.approx(2 / 3)
    assert describe_matrix(turn)['energy'] == pytest.approx(9)


def test_numbers_of_a_nilpotent_matrix():
    numbers = describe_matrix(torch.tensor([[0., 7.], [0., 0.]]))
    assert numbers['spectral_norm'] == pytest.approx(7)
    assert numbers['spectral_radius'] == pytest.approx(0, abs=1e-6)
    assert numbers['rank'] == 1 and numbers['dims'] == 2


def test_commutators():
    a = similar([1., 2., 3.])
    assert commutator(a, a @ a + 2 * a) == pytest.approx(0, abs=1e-9)
    # Pauli's matrices: AB = -BA.
    a = torch.tensor([[0., 1.], [1., 0.]])
    b = torch.tensor([[1., 0.], [0., -1.]])
    assert commutator(a, b) == pytest.approx(2)
    torch.manual_seed(0)
    a, b = torch.randn(2, 300, 300, dtype=torch.float64)
    assert commutator(a, b) == pytest.approx(math.sqrt(2), rel=0.02)


def test_circular_law_describes_random_matrices():
    matrix = torch.randn(400, 400, dtype=torch.float64)
    found = eigenvalues(matrix).abs()
    expected = random_magnitudes(400, float(matrix.norm()))
    assert (found - expected).abs().max() < 0.06 * found.max()
    assert float(found.sum()) == pytest.approx(
        float(expected.sum()), rel=0.02)


def test_the_control_has_the_norms_of_learned_matrices():
    learned = dict(half=dict(right=torch.eye(300).double(),
                             down=7 * torch.eye(300).double()))
    control = random_like(learned)['half']
    for direction, matrix in control.items():
        assert matrix.norm() == pytest.approx(
            float(learned['half'][direction].norm()))
    assert commutator(*control.values()) == pytest.approx(2**.5, rel=0.02)


def set_matrices(model, matrix):
    for scale in ('half_step', 'quarter_step'):
        weight = getattr(model.predictor, scale).weight
        for i in range(len(weight)):
            weight.data[i] = matrix(scale, i)


@pytest.mark.parametrize('num_models', [2, 4, 8])
def test_predictor_of_known_matrices(build, num_models):
    model = build(num_models=num_models)
    # 12 dimensions; the vertical matrix is the second of 2, third of 4 and 8.
    down = 1 if num_models == 2 else 2
    diagonal = torch.diag(torch.arange(1., 13.)) / 100
    set_matrices(model, lambda scale, i: diagonal * (2 if i == down else 1))
    report = describe_predictor(model.predictor)
    for scale in ('quarter', 'half'):
        found = report[scale]
        assert found['A']['energy'] == pytest.approx(0.78)
        assert found['energy_ratio'] == pytest.approx(0.5)
        assert found['commutator'] == pytest.approx(0, abs=1e-6)
        assert found['A']['rank'] == 12
        assert len(found['gap_to_derived']) == num_models - 2
    assert report['across_scales']['A']['overlap'] == pytest.approx(1)


def test_gap_is_zero_for_what_the_paper_derives(build):
    model = build(num_models=8)
    torch.manual_seed(0)
    a, b = torch.randn(2, 12, 12).double() / 10
    derived = list(derive(a, b).values())
    set_matrices(model, lambda scale, i: derived[i]
                 if scale == 'quarter_step' else
                 2 * derived[i] + derived[i] @ derived[i])
    found = describe_predictor(model.predictor)
    assert max(found['quarter']['gap_to_derived'].values()) == pytest.approx(
        0, abs=1e-6)
    assert max(found['half']['gap_to_derived'].values()) > 0.1
    for matrix in 'AB':  # two quarters make a half
        assert found['across_scales'][matrix][
            'gap_of_two_quarters'] == pytest.approx(0, abs=1e-5)
    # The appendix by hand: right and down, then left and down.
    assert torch.allclose(derived[4], a + b + (a @ b + b @ a) / 2)
    assert torch.allclose(derived[6], -a + b - (a @ b + b @ a) / 2)
    assert torch.equal(derived[1], -a)


@pytest.mark.parametrize('position,scale', [('corner', 'half'),
                                            ('center', 'quarter')])
def test_a_scale_that_was_not_trained_is_not_told(build, position, scale):
    model = build(position=position)
    assert list(describe_predictor(model.predictor)) == [scale]
    assert list(learned_matrices(model.predictor)) == [scale]
