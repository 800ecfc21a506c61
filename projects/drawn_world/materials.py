# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The study's scenes, in which shape, texture and color tell the class.

Four shapes in two variants each: rings and crosses are striped or spotted, of
any color; stars and tees are warm or cool, of any texture. Ground and clutter
have the same textures and colors. Objects lie anywhere, partly outside the
image and behind clutter.
"""
from typing import NamedTuple

import cv2
import numpy as np

from .objects import CLASSES as SHAPES
from .objects import Part, draw_parts
from .textures import TextureBank, crop, draw_colors

#: Offset of mean colors, RGB.
_TINTS = dict(warm=np.array([45., 0., -45.]), cool=np.array([-45., 0., 45.]))
#: Least distance between the mean colors of a surface and what it covers.
_APART = 85
#: Standard deviation of surfaces, log-uniform between these.
_CONTRAST = (12, 24)


class MaterialBank(TextureBank):
    """Tiles without photographs, and surfaces of a given texture or color.

    For the arguments see :class:`TextureBank`.
    """
    classes = tuple(f'{shape}-{look}' for shape, looks in (
        ('cross', ('spots', 'stripes')), ('ring', ('spots', 'stripes')),
        ('star', ('cool', 'warm')), ('tee', ('cool', 'warm')))
        for look in looks)
    shares = dict(noise=0.2, brushed=0.2, stripes=0.3, spots=0.3)
    single_radius = (0.27, 0.42)
    inside = 0.8

    def surface(self, rng: np.random.Generator, height: int, width: int,
                beside: np.ndarray | None = None) -> np.ndarray:
        """Draw a surface of any texture, warm, cool or neither."""
        tint = rng.choice([None, *_TINTS])
        return Material(self, None, tint).surface(rng, height, width, beside)

    def draw_object(self, rng: np.random.Generator,
                    label: int) -> tuple[list[Part], 'Material']:
        """Draw an object's parts, and give its material."""
        shape, look = self.classes[label].split('-')
        tint = look if look in _TINTS else None
        return (draw_parts(rng, SHAPES.index(shape)),
                Material(self, None if tint else look, tint))


class Material(NamedTuple):
    """Surfaces of one texture or of one tint; None: of any."""
    bank: TextureBank
    texture: str | None
    tint: str | None

    def surface(self, rng: np.random.Generator, height: int, width: int,
                beside: np.ndarray | None = None) -> np.ndarray:
        """See :meth:`TextureBank.surface`."""
        known = np.flatnonzero(
            (self.bank.kinds == self.texture) | (self.texture is None))
        piece = crop(rng, self.bank.tiles[rng.choice(known)], height, width)
        return cv2.transform(piece, draw_colors(
            rng, beside, _TINTS.get(self.tint, 0.), _APART, _CONTRAST))
