# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Scenes: ground, distant and near clutter, objects, light.

Things occlude each other like dead leaves. The density of their radii falls
as radius**-3, which makes the statistics independent of scale, as in
photographs (Lee, Mumford, Huang, "Occlusion models for natural images", IJCV
2001).

The generator is the only source of randomness; unfinished images are
(S, S, 3) float32, RGB.
"""
from typing import NamedTuple

import cv2
import numpy as np

from qbheat_mm.errors import UserError

from .objects import Part, draw_clutter
from .textures import TILE, TextureBank

#: Smallest height and width of an image in pixels.
MIN_SIZE = 16

MAX_OBJECTS = 3

#: Radius of clutter as a share of the image's side.
_FAR_RADIUS = (0.04, 0.8)
_NEAR_RADIUS = (0.04, 0.16)
#: Minimum radius, in pixels, of things with a shadow.
_MIN_SHADOW = 8
#: How often each part of an object has its own surface.
_APART = 0.25
#: Blur of the background, standard deviation in pixels.
_MAX_BLUR = 0.6
#: Minimum visible share of an object.
_VISIBLE = 0.7
#: Left, top, right, bottom in pixels; right and bottom are exclusive.
Window = tuple[int, int, int, int]
_SHIFT = 4  # fractional bits of coordinates in OpenCV


class Scene(NamedTuple):
    """An image and its objects.

    Attributes:
        image: (S, S, 3), uint8, RGB.
        labels: Indices into ``CLASSES``.
        boxes: (left, top, right, bottom) of the visible parts, in pixels;
            right and bottom are exclusive.
        masks: (S, S), bool, of the visible parts.
    """
    image: np.ndarray
    labels: list[int]
    boxes: list[Window]
    masks: list[np.ndarray]


def classification_scene(rng: np.random.Generator, bank: TextureBank,
                         label: int, size: int) -> Scene:
    """Draw one object of class ``label`` among clutter."""
    radius = rng.uniform(*bank.single_radius) * size
    reach = bank.inside * radius
    x, y = rng.uniform(reach, size - reach, 2)
    return _draw_scene(rng, bank, size, [(label, x, y, radius)])


def detection_scene(rng: np.random.Generator, bank: TextureBank,
                    size: int) -> Scene:
    """Draw one to ``MAX_OBJECTS`` objects that do not overlap."""
    placed: list[tuple] = []
    for _ in range(rng.integers(1, MAX_OBJECTS + 1)):
        radius = rng.uniform(*bank.multiple_radius) * size
        reach = bank.inside * radius
        for _ in range(20):
            x, y = rng.uniform(reach, size - reach, 2)
            if all(np.hypot(x - x2, y - y2) > radius + radius2
                   for _, x2, y2, radius2 in placed):
                label = int(rng.integers(len(bank.classes)))
                placed.append((label, x, y, radius))
                break
    return _draw_scene(rng, bank, size, placed)


def _draw_scene(rng: np.random.Generator, bank: TextureBank, size: int,
                placed: list[tuple]) -> Scene:
    """Draw from back to front."""
    if not MIN_SIZE <= size <= TILE:
        raise UserError(f'cannot draw images of {size} x {size} pixels: give '
                        f'{MIN_SIZE} to {TILE}')
    image = bank.surface(rng, size, size)
    shadow = rng.uniform(-0.06, 0.06, 2) * size
    for _ in range(rng.integers(*bank.far)):
        _draw(rng, bank, image, _clutter(rng, size, _FAR_RADIUS), shadow)
    depth_blur = rng.uniform(0, _MAX_BLUR)
    if depth_blur > 0.3:  # less is invisible
        image = cv2.GaussianBlur(image, (0, 0), depth_blur)
    for _ in range(rng.integers(*bank.near)):
        _draw(rng, bank, image, _clutter(rng, size, _NEAR_RADIUS), shadow)
    masks = []
    for label, x, y, radius in placed:
        parts, surfaces = bank.draw_object(rng, label)
        thing = Thing(parts, np.array([x, y]), radius)
        _draw(rng, surfaces, image, thing, shadow)
        masks.append(thing.mask((0, 0, size, size)) > 127)
    for _ in range(rng.integers(*bank.in_front)):
        _cover(rng, bank, image, masks, shadow)
    _light(rng, image)
    return Scene(
        np.clip(np.rint(image), 0, 255).astype(np.uint8),
        [label for label, *_ in placed], [_box(mask) for mask in masks],
        masks)


class Thing(NamedTuple):
    """Parts with a center (x, y) and a radius in pixels."""
    parts: list[Part]
    center: np.ndarray
    radius: float

    def window(self, size: int, margin: float = 2.) -> Window:
        """Part of an image that the thing may touch."""
        reach = self.radius + margin
        left, top = np.maximum(self.center - reach, 0).astype(int)
        right, bottom = np.minimum(self.center + reach + 1, size).astype(int)
        return int(left), int(top), int(right), int(bottom)

    def mask(self, window: Window) -> np.ndarray:
        """Coverage of each pixel of a window, (h, w), uint8."""
        left, top, right, bottom = window
        mask = np.zeros((bottom - top, right - left), np.uint8)
        origin = self.center - (left, top)
        for part in self.parts:
            points = [((contour * self.radius + origin) * 2**_SHIFT).round()
                      .astype(np.int32) for contour in part]
            cv2.fillPoly(mask, points, 255, cv2.LINE_AA, _SHIFT)
        return mask


def _clutter(rng: np.random.Generator, size: int,
             radii: tuple[float, float]) -> Thing:
    """Place a piece of clutter; its radius has density radius**-3."""
    part, center = draw_clutter(rng), rng.uniform(0, size, 2)
    low, high = radii
    radius = (low**-2 - rng.uniform() * (low**-2 - high**-2))**-0.5
    return Thing([part], center, radius * size)


def _cover(rng: np.random.Generator, bank: TextureBank, image: np.ndarray,
           masks: list[np.ndarray], shadow: np.ndarray) -> None:
    """Draw clutter in front, unless it would hide too much of an object."""
    size = len(image)
    thing = _clutter(rng, size, _NEAR_RADIUS)
    shown = thing.mask((0, 0, size, size)) <= 127
    left = [mask & shown for mask in masks]
    if all(after.sum() >= _VISIBLE * mask.sum()
           for after, mask in zip(left, masks)):
        masks[:] = left
        _draw(rng, bank, image, thing, shadow)


def _draw(rng: np.random.Generator, bank: TextureBank, image: np.ndarray,
          thing: Thing, shadow: np.ndarray) -> None:
    """Draw a thing and its shadow.

    Args:
        rng (np.random.Generator): The only source of randomness.
        bank (TextureBank): Anything with a method ``surface``.
        image (np.ndarray): (S, S, 3), changed in place.
        thing (Thing): What to draw.
        shadow (np.ndarray): Offset of the shadow, x and y in
            pixels, of a thing half as large as the image.
    """
    share = 2 * thing.radius / len(image)
    _darken(rng, image, thing._replace(
        center=thing.center + shadow * (0.3 + share)))
    left, top, right, bottom = window = thing.window(len(image))
    apart = len(thing.parts) > 1 and rng.uniform() < _APART
    groups = [thing.parts]
    if apart:
        groups = [[part] for part in thing.parts]
    for parts in groups:
        cover = thing._replace(parts=parts).mask(window)
        below = image[top:bottom, left:right]
        color = np.array(cv2.mean(below, cover)[:3]) if cover.any() else None
        surface = bank.surface(rng, bottom - top, right - left, color)
        _blend(below, surface, cover)


def _blend(window: np.ndarray, surface: np.ndarray,
           cover: np.ndarray) -> None:
    """Blend a surface over a window; a cover of 255 is opaque."""
    share = cv2.merge([cover.astype(np.float32) / 255] * 3)
    surface -= window
    surface *= share
    window += surface


def _darken(rng: np.random.Generator, image: np.ndarray,
            thing: Thing) -> None:
    """Cast a soft shadow."""
    if thing.radius < _MIN_SHADOW:
        return
    blur = 0.1 * thing.radius
    left, top, right, bottom = window = thing.window(len(image), 2 + 3 * blur)
    if left >= right or top >= bottom:
        return
    soft = cv2.GaussianBlur(thing.mask(window), (0, 0), blur)
    light = 1 - np.float32(rng.uniform(0.1, 0.5) / 255) * soft
    image[top:bottom, left:right] *= light[..., None]


def _light(rng: np.random.Generator, image: np.ndarray) -> None:
    """Apply uneven light and sensor noise."""
    size = len(image)
    corners = np.exp(rng.normal(0, 0.25, (2, 2))).astype(np.float32)
    light = cv2.resize(corners, (size, size), interpolation=cv2.INTER_LINEAR)
    image *= light[..., None]
    noise = rng.standard_normal((size, size, 3), dtype=np.float32)
    noise *= np.float32(rng.uniform(1, 6))
    image += noise


def _box(mask: np.ndarray) -> Window:
    """Box around a mask."""
    left, top, width, height = cv2.boundingRect(mask.astype(np.uint8))
    return left, top, left + width, top + height
