"""Matrices of Appendix A."""

import pytest
import torch

from qbheat_mm.errors import UserError
from qbheat_mm.models.selfsup.qbheat_predictor import (
    DIRECTIONS,
    LinearExtrapolation,
)

RIGHT, LEFT, DOWN, UP = (1, 0), (-1, 0), (0, 1), (0, -1)


def models(num_models, dims=5):
    torch.manual_seed(0)
    layer = LinearExtrapolation(dims, num_models).double()
    torch.nn.init.normal_(layer.weight)
    return layer


def diagonal(a, b, dx=3., dy=2.):
    """Return the paper's C for steps dx and dy, times their distance.

    a and b have absorbed the steps, the paper's A and B have not.
    """
    a, b = a / dx, b / dy
    distance = (dx**2 + dy**2)**0.5
    c = (dx * a + dy * b + dx * dy * (a @ b + b @ a) / 2) / distance
    return distance * c


def test_two_models_derive_six_directions():
    layer = models(2)
    a, b = layer.weight
    expected = {RIGHT: a, LEFT: -a, DOWN: b, UP: -b,
                (1, 1): diagonal(a, b), (1, -1): diagonal(a, -b),
                (-1, 1): diagonal(-a, b), (-1, -1): diagonal(-a, -b)}
    assert set(expected) == set(DIRECTIONS.values())
    for direction, matrix in expected.items():
        torch.testing.assert_close(layer.matrix(direction), matrix)


def test_four_models_derive_the_diagonals():
    layer = models(4)
    right, left, down, up = layer.weight
    assert torch.equal(layer.matrix(LEFT), left)
    assert torch.equal(layer.matrix(UP), up)
    expected = {(1, 1): (right, down), (1, -1): (right, up),
                (-1, 1): (left, down), (-1, -1): (left, up)}
    for direction, (a, b) in expected.items():
        torch.testing.assert_close(
            layer.matrix(direction), diagonal(a, b))


def test_eight_models_are_all_explicit():
    layer = models(8)
    for i, direction in enumerate(DIRECTIONS.values()):
        assert torch.equal(layer.matrix(direction), layer.weight[i])


@pytest.mark.parametrize('direction', [(0, 0), (2, 0), 'right'])
def test_an_invalid_direction_is_rejected(direction):
    with pytest.raises(UserError, match='must be two signs'):
        LinearExtrapolation(4).matrix(direction)
