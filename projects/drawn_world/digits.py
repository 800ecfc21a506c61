# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Handwritten digits on photographs: the study's real pixels.

Both come with scikit-learn and scikit-image, which are imported on first use.
The seed decides which are held out for testing. The two photographs of
scikit-learn never are, since the demo's textures are cut from them.
"""
from collections.abc import Sequence

import cv2
import numpy as np

from .objects import Part
from .textures import crop_photograph, load_photographs

#: In scikit-image's wheel, without drawings, text and microscopy.
PHOTOGRAPHS = ('astronaut.png', 'brick.png', 'camera.png', 'chelsea.png',
               'clock_motion.png', 'coffee.png', 'coins.png', 'grass.png',
               'gravel.png', 'hubble_deep_field.jpg', 'moon.png',
               'motorcycle_left.png', 'rocket.jpg')
#: Share of the digits that is held out; half of the photographs are.
_HELD_OUT = 1 / 3
#: Minimum side of a crop as a share of the photograph's shorter one.
_SIDE = 0.3
#: Minimum distance between the colors of ink and what it covers.
_APART = 80
#: Largest rotation of digits in radians.
_TURN = np.pi / 12


class PhotographBank:
    """Crops of photographs, and digits to lie on them.

    For the attributes see :class:`TextureBank`.

    Args:
        seed (int): Seed of the split. Defaults to 0.
        held_out (bool): Use the test split. Defaults to False.
    """
    classes = tuple('0123456789')
    single_radius = (0.34, 0.46)
    multiple_radius = (0.18, 0.3)
    inside = 1.
    far = near = in_front = (0, 1)
    lit = False

    def __init__(self, seed: int = 0, held_out: bool = False) -> None:
        from sklearn.datasets import load_digits
        rng = np.random.default_rng([seed, 0xD161])
        order = rng.permutation(len(PHOTOGRAPHS))
        half = len(order) // 2
        self.photographs = [_read(PHOTOGRAPHS[i]) for i in (
            order[:half] if held_out else order[half:])]
        if not held_out:
            self.photographs += load_photographs()
        images, labels = load_digits(return_X_y=True)
        order = rng.permutation(len(labels))
        count = int(_HELD_OUT * len(order))
        chosen = order[:count] if held_out else order[count:]
        self.digits = [images[chosen[labels[chosen] == label]]
                       for label in range(len(self.classes))]

    def surface(self, rng: np.random.Generator, height: int, width: int,
                avoid: np.ndarray | None = None) -> np.ndarray:
        """Crop a photograph, (height, width, 3), float32, RGB."""
        photograph = self.photographs[rng.integers(len(self.photographs))]
        piece = crop_photograph(
            rng, photograph, int(_SIDE * min(photograph.shape[:2])), height,
            width)
        return np.ascontiguousarray(piece[:, ::rng.choice([-1, 1])])

    def draw_object(self, rng: np.random.Generator,
                    label: int) -> tuple[list[Part], '_Ink']:
        """Draw the outline of a digit and choose its ink."""
        images = self.digits[label]
        return [_outline(images[rng.integers(len(images))],
                         rng.uniform(-_TURN, _TURN))], _Ink


class _Ink:
    """Surfaces of one color."""

    @staticmethod
    def surface(rng: np.random.Generator, height: int, width: int,
                avoid: np.ndarray | None = None) -> np.ndarray:
        color = rng.uniform(0, 255, 3)
        while avoid is not None and np.linalg.norm(color - avoid) < _APART:
            color = rng.uniform(0, 255, 3)
        return np.full((height, width, 3), color, np.float32)


def _read(name: str) -> np.ndarray:
    """Read a photograph of scikit-image, (H, W, 3)."""
    from skimage import io
    from skimage.data import data_dir
    image = io.imread(f'{data_dir}/{name}')
    return image if image.ndim == 3 else np.stack([image] * 3, axis=2)


def _outline(pixels: Sequence[float], turn: float) -> Part:
    """Trace the ink in 8 x 8 pixels; the contours fit the unit circle."""
    from skimage.measure import find_contours
    smooth = cv2.resize(np.pad(np.reshape(pixels, (8, 8)), 1), (80, 80),
                        interpolation=cv2.INTER_CUBIC)
    contours = [contour[:, ::-1] for contour in find_contours(smooth, 7)]
    corners = np.concatenate(contours)
    center = (corners.min(0) + corners.max(0)) / 2
    radius = np.hypot(*(corners - center).T).max()
    cos, sin = np.cos(turn), np.sin(turn)
    rotation = np.array([[cos, sin], [-sin, cos]]) / radius
    return [(contour - center) @ rotation for contour in contours]
