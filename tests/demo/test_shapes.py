"""The drawn categories."""
import numpy as np
import pytest

from qbheat_mm.demo.shapes import CLASSES, SHAPES


@pytest.fixture(scope='module')
def grid():
    axis = np.linspace(-2, 2, 401, dtype=np.float32)
    return np.meshgrid(axis, axis)


@pytest.mark.parametrize('name', CLASSES)
def test_a_shape_fits_into_its_circle_and_nearly_touches_it(grid, name):
    u, v = grid
    inside = SHAPES[name](u, v) < 0
    reach = np.hypot(u, v)[inside].max()
    assert 0.95 < reach < 1.02


@pytest.mark.parametrize('name', CLASSES)
def test_distances_near_the_outline_are_distances(grid, name):
    """Their slope is 1 there, else edges would not be anti-aliased."""
    distance = SHAPES[name](*grid)
    slope = np.hypot(*np.gradient(distance, grid[0][0, 1] - grid[0][0, 0]))
    near = np.abs(distance) < 0.02
    assert np.median(slope[near]) == pytest.approx(1, abs=0.02)


def test_no_two_shapes_are_alike(grid):
    inside = [SHAPES[name](*grid) < 0 for name in CLASSES]
    for i, one in enumerate(inside):
        for other in inside[:i]:
            overlap = (one & other).sum() / (one | other).sum()
            assert overlap < 0.8


def test_folders_come_in_the_order_of_the_labels():
    assert list(CLASSES) == sorted(CLASSES)
