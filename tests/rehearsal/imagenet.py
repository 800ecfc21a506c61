# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Draw images with the sizes and the kinds of files that ImageNet has.

What is published about ImageNet's 1,281,167 training images:

- most are about 500 pixels wide and of quality 96; outliers have 2592x3888
  or 500x33 pixels; one is a PNG file, n02105855_2933.JPEG
  (terryalanunlimited.com/compression-in-the-imagenet-dataset);
- 22 are CMYK (github.com/cytsai/ilsvrc-cmyk-image-list);
- some have damaged EXIF data (github.com/horovod/horovod/issues/333);
- of 13 million images of the whole ImageNet, 2,000 have a side below 32
  pixels (the card of timm/imagenet-w21-webp-wds).

The other shares are estimates. Rare kinds are more frequent here, and the
first images have all of them, so that a short run meets each.
"""
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from PIL import ExifTags, Image

#: Sides of the largest image.
LARGEST = (3888, 2592)


class Size(NamedTuple):
    """A share of the images, with the ranges of their sides."""
    share: float
    width: tuple[int, int]
    height: tuple[int, int]


SIZES = (
    Size(0.55, (500, 500), (375, 375)),
    Size(0.14, (375, 375), (500, 500)),
    Size(0.12, (500, 500), (333, 334)),
    Size(0.04, (333, 334), (500, 500)),
    Size(0.04, (500, 500), (500, 500)),
    Size(0.07, (100, 450), (100, 450)),
    Size(0.01, (2000, 3888), (1500, 2592)),
    Size(0.005, (500, 1600), (33, 120)),
    Size(0.005, (33, 120), (500, 1600)),
    Size(0.02, (20, 60), (20, 60)))

EXTREMES = [(size.width[end], size.height[end])
            for end in (1, 0) for size in SIZES]

#: Kinds of files besides a plain JPEG file, with their shares.
KINDS = dict(gray=0.02, progressive=0.1, rotated=0.02, exif=0.005, cmyk=0.002,
             png=0.002)
ONE_OF_EACH = ('cmyk', 'png', 'rotated', 'gray', 'exif', 'progressive')


class Drawing:
    """Draws images: windows of one large texture."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        coarse = self.random.integers(0, 256, (60, 90, 3), np.uint8)
        large = cv2.resize(coarse, LARGEST, interpolation=cv2.INTER_CUBIC)
        fine = self.random.integers(-6, 7, (*LARGEST[::-1], 1), np.int16)
        self.texture = (large + fine).clip(0, 255).astype(np.uint8)

    def window(self, width: int, height: int) -> np.ndarray:
        """Return an image, (height, width, 3), RGB, uint8."""
        left = self.random.integers(LARGEST[0] - width + 1)
        top = self.random.integers(LARGEST[1] - height + 1)
        return self.texture[top:top + height, left:left + width].copy()

    def choose(self, shares: dict) -> str:
        """Draw a name by its share; 'plain' has what the others leave."""
        names = [*shares, 'plain']
        weights = [*shares.values(), 1 - sum(shares.values())]
        return str(self.random.choice(names, p=weights))

    def size(self) -> tuple[int, int]:
        """Draw a width and a height."""
        shares = [size.share for size in SIZES]
        size = SIZES[self.random.choice(len(SIZES), p=shares)]
        width, height = self.random.integers(
            *zip(size.width, size.height), endpoint=True)
        return int(width), int(height)


def save(pixels: np.ndarray, kind: str, path: Path,
         orientation: int = 6) -> None:
    """Write an image as a kind of file."""
    image = Image.fromarray(pixels)
    settings = dict(format='JPEG', quality=95)
    if kind == 'gray':
        image = image.convert('L')
    elif kind == 'cmyk':
        image = image.convert('CMYK')
    elif kind == 'png':
        settings = dict(format='PNG', compress_level=1)
    elif kind == 'progressive':
        settings['progressive'] = True
    elif kind == 'rotated':
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = orientation
        settings['exif'] = exif
    elif kind == 'exif':
        settings['exif'] = b'Exif\0\0II*\0\x08\0\0\0\xff\xff damaged'
    image.save(path, **settings)


def damage(path: Path) -> None:
    """Add bytes before the end, as in some files of ImageNet."""
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes(7) + content[-2:])


def draw_classes(root: Path, classes: int, damaged: bool = False) -> None:
    """Draw ``train`` and ``val``, with a folder for each class.

    Training has 1 to 3 images in a class, validation has 1. Each kind of
    file and of size comes first.
    """
    drawing = Drawing(seed=0)
    for split, most in (('train', 3), ('val', 1)):
        kinds, sizes = iter(ONE_OF_EACH), iter(EXTREMES)
        for path in _paths(root / split, classes, most, drawing):
            kind = next(kinds, None) or drawing.choose(KINDS)
            width, height = next(sizes, None) or drawing.size()
            orientation = int(drawing.random.integers(1, 9))
            save(drawing.window(width, height), kind, path, orientation)
        if damaged:
            damage(path)


def _paths(folder: Path, classes: int, most: int,
           drawing: Drawing) -> Iterator[Path]:
    for label in range(classes):
        wordnet = folder / f'n{label:08}'
        wordnet.mkdir(parents=True)
        for number in range(drawing.random.integers(1, most + 1)):
            yield wordnet / f'{wordnet.name}_{number}.JPEG'
