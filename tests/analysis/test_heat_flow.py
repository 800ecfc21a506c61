# Copyright (c) QB-Heat MM authors. All rights reserved.
import math

import pytest
import torch

from qbheat_mm.analysis.heat_flow import (
    Flow,
    error_by_distance,
    projected_features,
    roll_out,
)
from qbheat_mm.errors import UserError

STEP = 4  # positions


@pytest.fixture
def generators():
    """Commuting A and B of six dimensions, per position, not symmetric."""
    torch.manual_seed(0)
    a = torch.randn(6, 6, dtype=torch.float64) / 15
    return a, 0.5 * a - 0.3 * a @ a


def true_field(a, b, start, height=9, width=11):
    """z(x, y) = exp(Ax) exp(By) z(0, 0) by the matrix exponential."""
    field = start.new_empty(height, width, len(start))
    for y in range(height):
        for x in range(width):
            field[y, x] = (
                torch.matrix_exp(a * x) @ torch.matrix_exp(b * y) @ start)
    return field


def step_matrix(generator):
    """The M that training would ideally find: I + M = exp(A * step)."""
    return torch.matrix_exp(generator * STEP) - torch.eye(6).double()


def test_a_field_that_obeys_the_equation_is_recovered(generators):
    a, b = generators
    start = torch.randn(6, dtype=torch.float64)
    field = true_field(a, b, start)
    flows = [Flow(step_matrix(g)) for g in (a, b)]
    # From anywhere, to the left and upwards as well.
    for x0, y0 in ((0, 0), (7, 5)):
        found = roll_out(field[y0, x0], *flows,
                         [(x - x0) / STEP for x in range(11)],
                         [(y - y0) / STEP for y in range(9)])
        assert torch.allclose(found, field, rtol=1e-7, atol=1e-9)
    errors = error_by_distance(field[None].float(), *flows, (STEP, STEP))
    for direction in ('right', 'down', 'right_down'):
        assert errors[direction]['flow'].max() < 1e-5
        assert errors[direction]['constant'][1:].min() > 1e-2


def test_order_of_matrices_that_do_not_commute():
    a, b = torch.randn(2, 4, 4, dtype=torch.float64) / 3
    start = torch.randn(4, dtype=torch.float64)
    eye = torch.eye(4).double()
    found = roll_out(start, Flow(a), Flow(b), [1], [1])[0, 0]
    assert torch.allclose(found, (eye + a) @ (eye + b) @ start)
    assert not torch.allclose(found, (eye + b) @ (eye + a) @ start)


def test_whole_steps_are_the_trained_prediction():
    matrix = torch.randn(5, 5, dtype=torch.float64) / 3
    flow = Flow(matrix)
    propagator = torch.eye(5).double() + matrix
    for k in (0, 1, 3):
        expected = torch.linalg.matrix_power(propagator, k)
        assert torch.allclose(flow(k).real, expected)
        assert flow(k).imag.abs().max() < 1e-9
    assert torch.allclose(flow(-1).real, torch.linalg.inv(propagator))


def test_readings_differ_by_half_the_square():
    """exp(M) - (I + M) = M^2 / 2 + ..., the error of the finite difference."""
    matrix = torch.randn(5, 5, dtype=torch.float64) / 1000
    gap = (Flow(matrix, 'euler')(1) - Flow(matrix, 'exact')(1)).real
    assert torch.allclose(gap, matrix @ matrix / 2, atol=1e-8)
    assert gap.norm() > 0


def test_a_matrix_without_eigenvectors_is_refused():
    jordan = torch.tensor([[0., 1.], [0., 0.]])
    with pytest.raises(UserError, match='no basis of eigenvectors.*euler'):
        Flow(jordan)
    expected = torch.tensor([[1., 2.5], [0., 1.]]).double()
    assert torch.allclose(Flow(jordan, 'euler')(2.5).real, expected)


def test_error_of_the_mean_and_of_unrelated_features_is_as_documented():
    fields = torch.randn(4, 12, 12, 32)
    still = Flow(torch.zeros(32, 32))
    errors = error_by_distance(fields, still, still, (STEP, STEP))['right']
    assert errors['flow'][0] == 0
    assert errors['flow'][1:].mean() == pytest.approx(math.sqrt(2), rel=0.05)
    assert torch.allclose(errors['flow'], errors['constant'])
    # I + M = 0 predicts 0 everywhere, which here is the mean.
    gone = Flow(-torch.eye(32))
    errors = error_by_distance(fields, gone, gone, (STEP, STEP))['right']
    assert errors['flow'][1:].mean() == pytest.approx(1, rel=0.05)


def test_features_by_quarter_are_those_of_pretraining(build, images):
    model = build()
    whole = projected_features(model, images)
    quarters = projected_features(model, images, by_quarter=True)
    assert whole.shape == quarters.shape == (2, 8, 12, 12)
    # What pre-training gives to the linear models.
    top, left = slice(0, 4), slice(0, 6)
    bottom, right = slice(4, 8), slice(6, 12)
    for position, rows, columns in (
            ('top_left', top, left), ('top_right', top, right),
            ('bottom_left', bottom, left), ('bottom_right', bottom, right)):
        feats = model.encode(model.crop(images, [(position, 2)]))
        expected = model.predictor.proj(feats.permute(0, 2, 3, 1))
        assert torch.allclose(quarters[:, rows, columns], expected, atol=1e-5)
    assert not torch.allclose(whole, quarters, atol=1e-3)


@pytest.mark.parametrize('reading', ['exact', 'euler'])
def test_error_is_zero_for_a_field_that_is_the_flow(reading):
    """Matrices that do not commute, and steps that differ along x and y."""
    a, b = torch.randn(2, 4, 4, dtype=torch.float64) / 8
    per_step = (2., 3.)
    flows = Flow(a, reading), Flow(b, reading)
    start = torch.randn(4, dtype=torch.float64)

    def z(x, y):
        moved = (flows[0](x / per_step[0]) @ flows[1](y / per_step[1]))
        return moved.real @ start

    # one start only: a map of 2 x 2, of which the diagonal has one pair
    corners = [z(0, 0), z(1, 0), z(0, 1), z(1, 1)]
    field = torch.stack(corners).view(1, 2, 2, 4)
    found = error_by_distance(field, *flows, per_step)
    assert found['right_down']['flow'][1] == pytest.approx(0, abs=1e-6)
    assert found['right_down']['constant'][1] > .01
