"""Matrices of the appendix "Derivation of Implicit Linear Models"."""
import itertools

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


def test_commuting_matrices_give_two_steps_in_a_row():
    """If A B = B A, the diagonal is a horizontal, then a vertical step."""
    layer = models(2)
    with torch.no_grad():
        layer.weight[1] = 2 * layer.weight[0] @ layer.weight[0]
    z = torch.randn(7, 5, dtype=torch.double)
    grid = layer(z[None], [(0, 0)])[0]
    two_steps = layer(grid[None, 0, 1], [(0, 0)])[0, 1, 0]
    torch.testing.assert_close(grid[1, 1], two_steps)


@pytest.mark.parametrize('cells', [
    [(0, 0)], [(1, 0), (0, 1)], [(1, 1), (0, 1), (1, 0), (0, 0)]])
def test_each_cell_fills_its_own_grid(cells):
    layer = models(8)
    z = torch.randn(len(cells), 7, 5, dtype=torch.double)
    grids = layer(z, cells)
    for known, grid, (column, row) in zip(z, grids, cells):
        for i, j in itertools.product(range(2), repeat=2):
            step = (j - column, i - row)
            moved = known if step == (0, 0) else (
                known + known @ layer.matrix(step).T)
            torch.testing.assert_close(grid[i, j], moved)


def test_other_numbers_of_models_are_refused():
    with pytest.raises(UserError, match='num_models=3 .*2, 4, 8'):
        LinearExtrapolation(5, 3)


@pytest.mark.parametrize('direction', [(0, 0), (2, 0), 'right'])
def test_an_invalid_direction_is_rejected(direction):
    with pytest.raises(UserError, match='must be two signs'):
        LinearExtrapolation(4).matrix(direction)
