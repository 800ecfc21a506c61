# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Objects of eight classes, as arrangements of parts.

A part is a list of closed contours, (N, 2) each, x to the right and y down, in
units of the object's radius, filled by the even-odd rule. Every object fits
into the circle of radius 1 at any angle. `cross`, `ell` and `tee` have the
same two bars, `dumbbell` and `trefoil` the same discs, and clutter looks like
single parts: only the arrangement tells the class.
"""
from collections.abc import Callable

import numpy as np

Part = list[np.ndarray]

#: Relative variation of lengths and widths within a class.
_VARIATION = 0.15
#: Largest rotation of objects in radians; clutter has any.
_TURN = np.pi / 8


def bar(center: tuple[float, float], half_length: float, half_width: float,
        angle: float = 0.) -> Part:
    """A rectangle, along x when the angle (in radians) is 0."""
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    return [corners * (half_length, half_width) @ _rotation(angle) + center]


def disc(center: tuple[float, float], radius: float) -> Part:
    """A disc, as a polygon of 32 corners."""
    return [_circle(radius, 32) + center]


def _circle(radius: np.ndarray | float, corners: int) -> np.ndarray:
    angles = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    return _polar(radius, angles)


def _polar(radii: np.ndarray | float, angles: np.ndarray) -> np.ndarray:
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)


def _rotation(angle: float) -> np.ndarray:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, sin], [-sin, cos]])


def arrow(vary: Callable[[float], float]) -> list[Part]:
    """A shaft with a triangular head."""
    shaft = bar((-0.35, 0.), 0.55, vary(0.14))
    head = np.array([(0.15, -vary(0.55)), (0.95, 0.), (0.15, vary(0.55))])
    return [shaft, [head]]


def cross(vary: Callable[[float], float]) -> list[Part]:
    """Two bars that cross in their centers."""
    width = vary(0.17)
    return [bar((0., 0.), 0.95, width), bar((0., 0.), vary(0.8), width,
                                            np.pi / 2)]


def dumbbell(vary: Callable[[float], float]) -> list[Part]:
    """Two discs at the ends of a bar."""
    return [bar((0., 0.), 0.6, vary(0.12)), disc((-0.62, 0.), vary(0.32)),
            disc((0.62, 0.), vary(0.32))]


def ell(vary: Callable[[float], float]) -> list[Part]:
    """Two bars that meet at their ends."""
    width = vary(0.17)
    return [bar((-0.5, 0.), 0.8, width, np.pi / 2),
            bar((0.05, 0.8 - width), 0.55 + width, width)]


def ring(vary: Callable[[float], float]) -> list[Part]:
    """A disc with a hole."""
    return [[_circle(0.95, 48), _circle(vary(0.55), 48)]]


def star(vary: Callable[[float], float]) -> list[Part]:
    """A star of five points."""
    corners = _circle(1., 10)
    corners[1::2] *= vary(0.42)
    return [[corners]]


def tee(vary: Callable[[float], float]) -> list[Part]:
    """A bar that ends in the center of another."""
    width = vary(0.17)
    return [bar((0., -0.7), vary(0.65), width),
            bar((0., 0.1), 0.8, width, np.pi / 2)]


def trefoil(vary: Callable[[float], float]) -> list[Part]:
    """Three discs around a point."""
    centers = _circle(0.52, 3)
    return [disc(tuple(center), vary(0.37)) for center in centers]


#: In the order of their folders.
OBJECTS: dict[str, Callable[[Callable[[float], float]], list[Part]]] = dict(
    arrow=arrow, cross=cross, dumbbell=dumbbell, ell=ell, ring=ring,
    star=star, tee=tee, trefoil=trefoil)

CLASSES = tuple(OBJECTS)


def draw_parts(rng: np.random.Generator, shape: str) -> list[Part]:
    """Draw the parts of an object, of random angle and proportions.

    Args:
        rng (np.random.Generator): The only source of randomness.
        shape (str): One of ``CLASSES``.
    """

    def vary(length: float) -> float:
        return length * (1 + rng.uniform(-_VARIATION, _VARIATION))

    parts = OBJECTS[shape](vary)
    rotation = _rotation(rng.uniform(-_TURN, _TURN))
    turned = []
    for part in parts:
        turned.append([contour @ rotation for contour in part])
    return turned


def draw_clutter(rng: np.random.Generator) -> Part:
    """Draw an ellipse, bar, polygon or blob of random angle."""
    rotation = _rotation(rng.uniform(0, 2 * np.pi))
    kind = rng.integers(4)
    if kind == 0:  # an ellipse
        contour = _circle(1., 24) * (1., rng.uniform(0.3, 1.))
    elif kind == 1:  # a bar
        contour = bar((0., 0.), 1., rng.uniform(0.12, 0.35))[0]
    elif kind == 2:  # a polygon
        corners = int(rng.integers(3, 7))
        angles = np.sort(rng.uniform(0, 2 * np.pi, corners))
        contour = _polar(rng.uniform(0.5, 1., corners), angles)
    else:  # a blob
        angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
        radii = 0.75 + sum(
            rng.uniform(0, 0.12) * np.cos(n * angles + rng.uniform(0, 6.3))
            for n in (2, 3))
        contour = _polar(radii, angles)
    return [contour @ rotation]
