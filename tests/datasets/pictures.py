"""Images to store, and to damage, in every format."""
import io

import numpy as np
from PIL import Image

from qbheat_mm.datasets.image_folder import EXTENSIONS

FORMATS = dict(jpg='JPEG', png='PNG', gif='GIF', bmp='BMP', tif='TIFF',
               webp='WEBP', ppm='PPM')
if '.avif' in EXTENSIONS:
    FORMATS['avif'] = 'AVIF'


def draw(height=48, width=64, seed=0):
    """An image with edges and texture, (H, W, 3), RGB, uint8."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 255, (height // 8, width // 8, 3))
    fine = random.integers(0, 30, (height, width, 3))
    image = np.kron(coarse, np.ones((8, 8, 1))) + fine
    return image.clip(0, 255).astype(np.uint8)


def encode(image, form='JPEG', **options):
    """The bytes of a file."""
    file = io.BytesIO()
    if not isinstance(image, Image.Image):
        image = Image.fromarray(image)
    image.save(file, form, **options)
    return file.getvalue()


def turned(orientation):
    """EXIF data of an orientation."""
    exif = Image.Exif()
    exif[274] = orientation
    return exif
