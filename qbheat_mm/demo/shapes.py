# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The categories of the demo, as signed distances to their outlines.

Each function takes coordinates ``u`` (right) and ``v`` (down) in units of
the object's radius, arrays of one shape, and returns the distance to the
outline in the same units, negative inside. Every shape fits into the circle
of radius 1, so that it may be turned at will.
"""
from collections.abc import Callable

import numpy as np

SignedDistance = Callable[[np.ndarray, np.ndarray], np.ndarray]


def disc(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A disc of radius 1."""
    return np.hypot(u, v) - 1


def ring(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A ring between the radii 0.5 and 1."""
    return np.abs(np.hypot(u, v) - 0.75) - 0.25


def box(u: np.ndarray, v: np.ndarray, half_width: float,
        half_height: float) -> np.ndarray:
    """A rectangle; outside its distance is the larger of the two axes'."""
    return np.maximum(np.abs(u) - half_width, np.abs(v) - half_height)


def square(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A square of side 1.4."""
    return box(u, v, 0.7, 0.7)


def frame(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A square with a square hole."""
    return np.abs(box(u, v, 0.54, 0.54)) - 0.16


def cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A cross of two bars."""
    return np.minimum(box(u, v, 0.95, 0.3), box(u, v, 0.3, 0.95))


def bars(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Three parallel bars."""
    middle = box(u, v, 0.15, 0.7)
    left, right = box(u + 0.54, v, 0.15, 0.7), box(u - 0.54, v, 0.15, 0.7)
    return np.minimum(middle, np.minimum(left, right))


def polygon(u: np.ndarray, v: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Any polygon, by its edges and the even-odd rule.

    Args:
        u (np.ndarray): To the right.
        v (np.ndarray): Down, of the same shape.
        corners (np.ndarray): (N, 2), in order around the outline.

    Returns:
        np.ndarray: Signed distances, of the shape of u.
    """
    distance = np.full(u.shape, np.inf, dtype=u.dtype)
    inside = np.zeros(u.shape, dtype=bool)
    for (x, y), (dx, dy) in zip(corners,
                                np.roll(corners, -1, axis=0) - corners):
        along = ((u - x) * dx + (v - y) * dy) / (dx * dx + dy * dy)
        along = np.clip(along, 0, 1)
        distance = np.minimum(distance,
                              np.hypot(u - x - along * dx, v - y - along * dy))
        if dy != 0:
            crosses = (y > v) != (y + dy > v)
            inside ^= crosses & (u < x + (v - y) * dx / dy)
    return np.where(inside, -distance, distance)


def _on_circle(radii: list[float]) -> np.ndarray:
    """Corners at equal angles, the first at the top, (N, 2)."""
    angles = 2 * np.pi * np.arange(len(radii)) / len(radii)
    corners = np.stack([np.sin(angles), -np.cos(angles)], axis=1)
    return corners.astype(np.float32) * np.float32(radii)[:, None]


_TRIANGLE = _on_circle([1, 1, 1])
_STAR = _on_circle([1, 0.42] * 5)


def triangle(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """An equilateral triangle."""
    return polygon(u, v, _TRIANGLE)


def star(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A star of five points."""
    return polygon(u, v, _STAR)


#: The categories. Alphabetical, so that the folders of an image-folder set
#: come in the same order.
SHAPES: dict[str, SignedDistance] = dict(
    bars=bars,
    cross=cross,
    disc=disc,
    frame=frame,
    ring=ring,
    square=square,
    star=star,
    triangle=triangle)

CLASSES = tuple(SHAPES)
