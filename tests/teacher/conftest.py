# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A teacher and images whose colors tell the position."""
import numpy as np
import pytest
from PIL import Image

from ..helpers.teachers import MeanColors, write_teacher


@pytest.fixture(scope='module')
def teacher(tmp_path_factory):
    folder = tmp_path_factory.mktemp('teacher')
    return write_teacher(folder / 'mean.safetensors', MeanColors(),
                         dict(type='MeanColors'))


@pytest.fixture(scope='module')
def images(tmp_path_factory):
    """Images whose red and green tell the position, and blue the image."""
    folder = tmp_path_factory.mktemp('images')
    for number, (height, width) in enumerate([(200, 240), (256, 180),
                                              (190, 190), (300, 400)]):
        pixels = np.zeros((height, width, 3), np.uint8)
        pixels[..., 0] = np.linspace(0, 255, width)[None]
        pixels[..., 1] = np.linspace(0, 255, height)[:, None]
        pixels[..., 2] = 60 * number
        Image.fromarray(pixels).save(folder / f'{number}.png')
    return str(folder)
