# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Surfaces, cut from a bank of textured tiles.

Tiles have structure at many scales: isotropic and directed noise whose
amplitude falls with frequency as in photographs, stripes, checks and spots
distorted by such noise, and crops of the two photographs in scikit-learn. A
surface is a random crop of a random tile, with its own colors and contrast.
"""
from typing import NamedTuple

import cv2
import numpy as np

from .objects import CLASSES, Part, draw_parts

#: Height and width of tiles in pixels, the limit for surfaces.
TILE = 256
#: Standard deviation of a tile's values.
DEVIATION = 64
#: Offsets of mean colors, RGB.
TINTS = dict(warm=np.array([45., 0., -45.]), cool=np.array([-45., 0., 45.]))


class TextureBank:
    """A fixed set of tiles, and the settings of scenes made of them.

    Args:
        seed (int): Defaults to 0.
        tiles (int): Number of tiles. Defaults to 160.
    """
    #: ``SHAPE``, or ``SHAPE-LOOK`` where the look is a texture or a tint.
    classes = CLASSES
    #: Shares of the kinds of tiles.
    shares = dict(noise=0.3, brushed=0.2, stripes=0.15, checks=0.1,
                  spots=0.1, photograph=0.15)
    #: Tints of ground and clutter, in addition to none.
    tints = ()
    #: Minimum distance between the mean colors of a surface and of what it
    #: covers.
    apart = 95
    #: Standard deviation of surfaces, log-uniform between these.
    contrast = (8, 22)
    #: Radius of single and of several objects as a share of the image's side.
    single_radius = (0.3, 0.45)
    multiple_radius = (0.16, 0.3)
    #: Distance of an object's center from the border, in radii.
    inside = 1.
    #: Ranges of the number of clutter pieces, exclusive above.
    far, near, in_front = (4, 12), (0, 3), (0, 2)

    def __init__(self, seed: int = 0, tiles: int = 160) -> None:
        rng = np.random.default_rng([seed, 0x7E47])
        photographs = load_photographs()
        self.kinds = rng.choice(list(self.shares), tiles,
                                p=list(self.shares.values()))
        self.tiles = np.stack(
            [_draw_tile(rng, kind, photographs) for kind in self.kinds])

    def draw_object(self, rng: np.random.Generator,
                    label: int) -> tuple[list[Part], 'Material']:
        """Draw the parts of an object and choose its material."""
        shape, _, look = self.classes[label].partition('-')
        tint = look if look in TINTS else None
        texture = None if tint else look or None
        return draw_parts(rng, shape), Material(self, texture, tint)

    def surface(self, rng: np.random.Generator, height: int, width: int,
                avoid: np.ndarray | None = None) -> np.ndarray:
        """Draw a surface of any texture, for ground and clutter.

        Args:
            rng (np.random.Generator): The only source of randomness.
            height (int): In pixels, at most ``TILE``.
            width (int): In pixels, at most ``TILE``.
            avoid (np.ndarray, optional): A color, (3, ), that the mean color
                differs from by at least ``apart``.

        Returns:
            np.ndarray: (height, width, 3), float32, RGB, about 0 to 255 but
            not clipped.
        """
        material = Material(self, None, rng.choice([None, *self.tints]))
        return material.surface(rng, height, width, avoid)


class MaterialBank(TextureBank):
    """The study's scenes: shape, texture and color tell the class.

    Rings and crosses are striped or spotted, of any color; stars and tees are
    warm or cool, of any texture. Ground and clutter have the same textures
    and colors, and no tile is a photograph. Objects lie anywhere, partly
    outside the image and behind clutter.

    For the arguments see :class:`TextureBank`.
    """
    classes = ('cross-spots', 'cross-stripes', 'ring-spots', 'ring-stripes',
               'star-cool', 'star-warm', 'tee-cool', 'tee-warm')
    shares = dict(noise=0.2, brushed=0.2, stripes=0.3, spots=0.3)
    tints = tuple(TINTS)
    apart = 85
    contrast = (12, 24)
    single_radius = (0.27, 0.42)
    inside = 0.8


class Material(NamedTuple):
    """Surfaces of one texture (None: of any) and one tint (None: without)."""
    bank: TextureBank
    texture: str | None
    tint: str | None

    def surface(self, rng: np.random.Generator, height: int, width: int,
                avoid: np.ndarray | None = None) -> np.ndarray:
        """See :meth:`TextureBank.surface`."""
        bank = self.bank
        tiles = np.flatnonzero(
            (bank.kinds == self.texture) | (self.texture is None))
        piece = _crop(rng, bank.tiles[rng.choice(tiles)], height, width)
        scale = np.exp(rng.uniform(*np.log(bank.contrast))) / DEVIATION
        mix = scale * (np.eye(3) + 0.2 * rng.standard_normal((3, 3)))
        tint = TINTS.get(self.tint, 0.)
        mean = _mean_color(rng) + tint
        while avoid is not None and np.linalg.norm(mean - avoid) < bank.apart:
            mean = _mean_color(rng) + tint
        colors = np.concatenate([mix, mean[:, None]], axis=1)
        return cv2.transform(piece, colors.astype(np.float32))


def _crop(rng: np.random.Generator, tile: np.ndarray, height: int,
          width: int) -> np.ndarray:
    """Crop a tile at random, and mirror it perhaps."""
    top = rng.integers(TILE - height + 1)
    left = rng.integers(TILE - width + 1)
    piece = tile[top:top + height, left:left + width]
    flip = rng.integers(-1, 3)  # both axes, y, x, none
    return cv2.flip(piece, int(flip)) if flip < 2 else piece


def _mean_color(rng: np.random.Generator) -> np.ndarray:
    light = np.clip(128 + 45 * rng.standard_normal(), 30, 225)
    return light + 22 * rng.standard_normal(3)


def load_photographs() -> list[np.ndarray]:
    """The two photographs in scikit-learn, (427, 640, 3) in RGB."""
    from sklearn.datasets import load_sample_images
    return list(load_sample_images().images)


def _draw_tile(rng: np.random.Generator, kind: str,
               photographs: list[np.ndarray]) -> np.ndarray:
    """Draw a tile (TILE, TILE, 3), mean 0, deviation ``DEVIATION``.

    Its channels are strongly correlated, as in photographs.
    """
    if kind == 'photograph':
        photograph = photographs[rng.integers(len(photographs))]
        tile = crop_photograph(rng, photograph, TILE // 2, TILE, TILE)
    else:
        light = _PATTERNS[kind](rng)
        tints = np.stack([_noise(rng, 1.2) for _ in range(3)], axis=2)
        tile = light[..., None] + rng.uniform(0.1, 0.5) * tints
        # fine grain
        tile = tile + rng.uniform(0.15, 0.5) * _noise(rng, 0.5)[..., None]
    tile = tile - tile.mean(axis=(0, 1))
    return (DEVIATION * tile / tile.std()).astype(np.float32)


def crop_photograph(rng: np.random.Generator, photograph: np.ndarray,
                    min_side: int, height: int, width: int) -> np.ndarray:
    """Crop a square at random and resize it, (height, width, 3), float32."""
    side = int(rng.integers(min_side, min(photograph.shape[:2])))
    top = int(rng.integers(photograph.shape[0] - side + 1))
    left = int(rng.integers(photograph.shape[1] - side + 1))
    method = cv2.INTER_AREA if side > width else cv2.INTER_CUBIC
    return cv2.resize(photograph[top:top + side, left:left + side],
                      (width, height), interpolation=method).astype(np.float32)


def _frequencies(rng: np.random.Generator,
                 stretch: float = 1.) -> np.ndarray:
    """Cycles per tile of each Fourier coefficient, for a random axis."""
    fy, fx = np.meshgrid(
        TILE * np.fft.fftfreq(TILE), TILE * np.fft.rfftfreq(TILE),
        indexing='ij')
    angle = rng.uniform(0, np.pi)
    along = np.cos(angle) * fx + np.sin(angle) * fy
    across = np.cos(angle) * fy - np.sin(angle) * fx
    return np.hypot(stretch * along, across / stretch)


def _filtered(rng: np.random.Generator, amplitude: np.ndarray) -> np.ndarray:
    """Noise of the given amplitudes, scaled to deviation 1."""
    phase = rng.uniform(0, 2 * np.pi, amplitude.shape)
    noise = np.fft.irfft2(amplitude * np.exp(1j * phase), s=(TILE, TILE))
    return noise / noise.std()


def _noise(rng: np.random.Generator, exponent: float,
           stretch: float = 1.) -> np.ndarray:
    """Noise of amplitude ``frequency ** -exponent``."""
    frequency = _frequencies(rng, stretch)
    amplitude = np.maximum(frequency, 1)**-exponent
    amplitude[frequency == 0] = 0
    return _filtered(rng, amplitude)


def _bent_phase(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two orthogonal phases, slightly distorted."""
    y, x = np.mgrid[:TILE, :TILE] * (2 * np.pi / TILE)
    angle = rng.uniform(0, np.pi)
    cycles = np.exp(rng.uniform(np.log(8), np.log(44)))
    bend = rng.uniform(0.3, 2.) * _noise(rng, 1.6)
    along = cycles * (np.cos(angle) * x + np.sin(angle) * y) + bend
    across = cycles * (np.cos(angle) * y - np.sin(angle) * x) + bend
    return along, across


def _edged(wave: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sharpen the edges of a wave by a random amount, and add noise."""
    wave = np.tanh(rng.uniform(0.5, 4.) * wave)
    return wave + rng.uniform(0.2, 0.8) * _noise(rng, 1)


def _stripes(rng: np.random.Generator) -> np.ndarray:
    along, _ = _bent_phase(rng)
    return _edged(np.sin(along), rng)


def _checks(rng: np.random.Generator) -> np.ndarray:
    along, across = _bent_phase(rng)
    return _edged(np.sin(along) * np.sin(across), rng)


def _spots(rng: np.random.Generator) -> np.ndarray:
    frequency = _frequencies(rng)
    center = np.exp(rng.uniform(np.log(8), np.log(32)))
    band = np.exp(-(np.log(np.maximum(frequency, 1) / center) / 0.35)**2)
    return _edged(_filtered(rng, band), rng)


_PATTERNS = dict(
    noise=lambda rng: _noise(rng, rng.uniform(0.6, 1.3)),
    brushed=lambda rng: _noise(rng, rng.uniform(0.6, 1.1),
                               rng.uniform(1.8, 3.5)),
    stripes=_stripes, checks=_checks, spots=_spots)
