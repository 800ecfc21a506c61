# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Scenes of the demo: drawn objects on crops of photographs.

All is grey. The targets of pre-training are normalised in each patch, over its
channels too: those of a smooth patch in colour are its hue and little else,
and to guess hues teaches an encoder nothing about shapes.

Every function draws from the random generator that it is given and from
nothing else; images are (S, S, 3) float32 arrays in RGB while they are made.
"""
from typing import NamedTuple

import cv2
import numpy as np

from .shapes import CLASSES, SHAPES

#: Radius of an object as a share of the image's side: one large object for
#: classification, smaller ones for detection.
SINGLE_RADIUS = (0.27, 0.44)
MULTIPLE_RADIUS = (0.18, 0.3)
MAX_OBJECTS = 2

#: Edges fade over so many pixels.
_EDGE = 1.5
#: Two shades that must be told apart differ by so many grey levels.
_MIN_CONTRAST = 55


class Scene(NamedTuple):
    """An image and its objects.

    ``image`` is (S, S, 3) uint8 in RGB, ``labels`` indexes ``CLASSES``,
    ``boxes`` holds (left, top, right, bottom) in pixels; right and bottom
    are exclusive.
    """
    image: np.ndarray
    labels: list[int]
    boxes: list[tuple[int, int, int, int]]


def load_photographs() -> list[np.ndarray]:
    """The two photographs in scikit-learn's wheel, (427, 640, 3) in RGB."""
    from sklearn.datasets import load_sample_images
    return list(load_sample_images().images)


def classification_scene(rng: np.random.Generator,
                         photographs: list[np.ndarray], label: int,
                         size: int) -> Scene:
    """One large object of the category ``label``."""
    image = background(rng, photographs, size)
    radius = rng.uniform(*SINGLE_RADIUS) * size
    center = _place(rng, radius, size)
    box = draw_object(rng, image, label, center, radius)
    return Scene(_to_uint8(image), [label], [box])


def detection_scene(rng: np.random.Generator, photographs: list[np.ndarray],
                    size: int) -> Scene:
    """One to ``MAX_OBJECTS`` objects that do not cover each other."""
    image = background(rng, photographs, size)
    labels, boxes, circles = [], [], []
    for _ in range(rng.integers(1, MAX_OBJECTS + 1)):
        radius = rng.uniform(*MULTIPLE_RADIUS) * size
        center = _place_apart(rng, radius, size, circles)
        if center is None:  # no room: fewer objects
            continue
        circles.append((*center, radius))
        labels.append(int(rng.integers(len(CLASSES))))
        boxes.append(draw_object(rng, image, labels[-1], center, radius))
    return Scene(_to_uint8(image), labels, boxes)


def background(rng: np.random.Generator, photographs: list[np.ndarray],
               size: int) -> np.ndarray:
    """A random crop: scaled, flipped, grey, soft and faint."""
    photograph = photographs[rng.integers(len(photographs))]
    side = int(rng.integers(size, min(photograph.shape[:2])))
    top, left = (int(rng.integers(0, n - side + 1))
                 for n in photograph.shape[:2])
    crop = cv2.resize(
        photograph[top:top + side, left:left + side], (size, size),
        interpolation=cv2.INTER_AREA).astype(np.float32)
    crop = crop[:, ::rng.choice([-1, 1])][::rng.choice([-1, 1])]
    crop = cv2.GaussianBlur(crop.mean(axis=2), (0, 0), rng.uniform(3, 6))
    crop = np.repeat(crop[..., None], 3, axis=2)
    mean = crop.mean()
    shifted = np.clip(mean + rng.uniform(-50, 50), 30, 225)
    return ((crop - mean) * rng.uniform(0.2, 0.5) + shifted).astype(np.float32)


def draw_object(rng: np.random.Generator, image: np.ndarray, label: int,
                center: tuple[float, float],
                radius: float) -> tuple[int, int, int, int]:
    """Draw one object into an image.

    Args:
        rng (np.random.Generator): Draws angle and shades.
        image (np.ndarray): (S, S, 3), changed in place.
        label (int): The category.
        center (tuple[float, float]): x and y in pixels.
        radius (float): Of the circle around the object, in pixels.

    Returns:
        tuple[int, int, int, int]: The tight box of what is visible.
    """
    reach = int(np.ceil(radius + _EDGE))
    left, top = (max(int(c) - reach, 0) for c in center)
    window = image[top:int(center[1]) + reach + 1,
                   left:int(center[0]) + reach + 1]
    ys, xs = np.mgrid[:window.shape[0], :window.shape[1]].astype(np.float32)
    angle = rng.uniform(0, 2 * np.pi)
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    x = (xs + np.float32(left - center[0])) / np.float32(radius)
    y = (ys + np.float32(top - center[1])) / np.float32(radius)
    u, v = cos * x + sin * y, cos * y - sin * x

    near = _contrasting_shade(rng, window.mean())
    far = _contrasting_shade(rng, near)
    shade = near + (far - near) * np.clip(0.2 + 0.2 * u, 0, 0.4)
    distance = SHAPES[CLASSES[label]](u, v) * np.float32(radius)
    cover = np.clip(0.5 - distance / _EDGE, 0, 1)
    window += cover[..., None] * (shade[..., None] - window)

    rows, columns = np.nonzero(cover > 0.5)
    return (left + int(columns.min()), top + int(rows.min()),
            left + int(columns.max()) + 1, top + int(rows.max()) + 1)


def _contrasting_shade(rng: np.random.Generator, other: float) -> float:
    """A random grey level far from another one."""
    while True:
        shade = rng.uniform(0, 255)
        if abs(shade - other) > _MIN_CONTRAST:
            return shade


def _place(rng: np.random.Generator, radius: float,
           size: int) -> tuple[float, float]:
    """A centre for which the object lies within the image."""
    x, y = rng.uniform(radius, size - radius, 2)
    return float(x), float(y)


def _place_apart(rng: np.random.Generator, radius: float, size: int,
                 circles: list[tuple]) -> tuple[float, float] | None:
    """A centre whose circle touches no other; None if none was found."""
    for _ in range(20):
        x, y = _place(rng, radius, size)
        if all(
                np.hypot(x - x2, y - y2) > radius + radius2
                for x2, y2, radius2 in circles):
            return x, y
    return None


def _to_uint8(image: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)
