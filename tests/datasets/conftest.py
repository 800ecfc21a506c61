"""Pictures to store, and to spoil, in every format."""
import io

import numpy as np
import pytest
from PIL import Image

from qbheat_mm.datasets.extensions import image_endings

FORMATS = dict(jpg='JPEG', png='PNG', gif='GIF', bmp='BMP', tif='TIFF',
               webp='WEBP', ppm='PPM')
if '.avif' in image_endings():
    FORMATS['avif'] = 'AVIF'


def draw(height=48, width=64, seed=0):
    """A picture with edges and texture, (H, W, 3), RGB, uint8."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 255, (height // 8, width // 8, 3))
    fine = random.integers(0, 30, (height, width, 3))
    picture = np.kron(coarse, np.ones((8, 8, 1))) + fine
    return picture.clip(0, 255).astype(np.uint8)


def encode(picture, form='JPEG', **options):
    """The bytes of a file."""
    file = io.BytesIO()
    if not isinstance(picture, Image.Image):
        picture = Image.fromarray(picture)
    picture.save(file, form, **options)
    return file.getvalue()


def decode_with_pillow(content):
    """The pixels that Pillow finds in a sound file, BGR."""
    image = Image.open(io.BytesIO(content)).convert('RGB')
    return np.asarray(image)[..., ::-1]


@pytest.fixture
def picture():
    return draw()
