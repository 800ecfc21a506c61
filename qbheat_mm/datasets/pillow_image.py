# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Open images with Pillow and decode them to RGB of 8 bits."""
import io
import os.path as osp
import warnings

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError
from PIL.TiffImagePlugin import (
    BITSPERSAMPLE,
    PLANAR_CONFIGURATION,
    ImageFileDirectory_v2,
    TiffImageFile,
)

from ..errors import ImageError

try:
    from pillow_heif import register_heif_opener
except ImportError:  # HEIC files are not images then
    pass
else:
    register_heif_opener()

# Some other formats of Pillow start external programs.
_FORMATS = ('AVIF', 'BMP', 'DIB', 'GIF', 'HEIF', 'JPEG', 'JPEG2000', 'MPO',
            'PNG', 'PPM', 'TIFF', 'WEBP')
_DARK = 1 << 13


def open_image(path: str, content: bytes) -> Image.Image:
    """Read the header of an image file.

    Raises:
        ImageError: If it is not an image, too large or damaged.
    """
    Image.init()
    formats = [name for name in _FORMATS if name in Image.OPEN]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            return Image.open(io.BytesIO(content), formats=formats)
        except UnidentifiedImageError as error:
            tags = _tiff_tags(content)
            problem = _refusal(tags) if tags else 'is not an image'
            raise ImageError(path, problem) from error
        except Exception as error:  # each format has its own errors
            raise ImageError(path, f'is damaged ({error})') from error


def to_rgb(path: str, image: Image.Image) -> np.ndarray:
    """Decode an image to RGB.

    Args:
        path (str): The file, for messages.
        image (Image.Image): The image; unless it is decoded already, TIFF
            files of all kinds are read right.

    Returns:
        np.ndarray: (H, W, 3), uint8, the upper 8 of 16 bits, as stored: see
        :func:`orientation_of`.

    Raises:
        ImageError: If it is damaged, or has values of more than 16 bits.
    """
    if image.format == 'TIFF':
        _correct_planes(path, image)
    has_16_bits = image.mode.startswith('I') or (
        image.format in ('PNG', 'TIFF') and ';16' in str(image.tile))
    try:
        image.load()
    except Exception as error:  # each format has its own errors
        raise ImageError(path, f'is damaged ({error})') from error
    if image.mode.startswith(('I', 'F')):
        rgb = np.repeat(_upper_8_bits(path, image)[..., None], 3, axis=2)
    else:
        rgb = np.array(image.convert('RGB'))
    # E.g. microscopes, satellites and detectors of 12 bits.
    if has_16_bits and rgb.max() < _DARK >> 8:
        # Python shows it once for each folder.
        warnings.warn(f"16-bit images in '{osp.dirname(path)}' are nearly "
                      'black: below 8192, and the upper 8 bits are used; '
                      'scale them to all 16 bits', stacklevel=2)
    return rgb


def orientation_of(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 (upright) to 8.

    Of decoded images: Pillow rotates those of some formats while decoding.
    """
    try:
        found = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # unreadable EXIF data
        return 1
    return found if found in range(1, 9) else 1


def rotate(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Apply an EXIF orientation to (H, W, 3)."""
    if orientation > 4:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def _upper_8_bits(path: str, image: Image.Image) -> np.ndarray:
    """Convert gray values of up to 16 bits to uint8."""
    gray = np.asarray(image)
    if image.mode == 'F' or gray.min() < 0 or gray.max() > 65535:
        raise ImageError(path, f'has mode {image.mode!r}: convert it to '
                         '8 bits')
    return (gray >> 8).astype(np.uint8)


def _correct_planes(path: str, image: TiffImageFile) -> None:
    """Have the planes of 16-bit files without compression read as such.

    Pillow 13 takes them for planes of 8 bits.
    """
    tags = image.tag_v2
    bits = tags.get(BITSPERSAMPLE, (1, ))
    separate = tags.get(PLANAR_CONFIGURATION) == 2 and len(bits) > 1
    if not separate or max(bits) <= 8:
        return
    if len(bits) != len(image.getbands()):
        raise ImageError(path, _refusal(tags))
    order = 'L' if tags.prefix == b'II' else 'B'
    for i, tile in enumerate(image.tile):
        band, *others = tile.args
        if tile.codec_name == 'raw' and ';16' not in band:
            image.tile[i] = tile._replace(
                args=(f'{band};16{order}', *others))


def _tiff_tags(content: bytes) -> ImageFileDirectory_v2 | None:
    """Read the tags of a TIFF file; None for other files."""
    is_big = b'\x2b' in content[2:4]
    try:
        tags = ImageFileDirectory_v2(content[:16 if is_big else 8])
        file = io.BytesIO(content)
        file.seek(tags.next)
        tags.load(file)
    except Exception:  # damage has its own errors
        return None
    return tags


def _refusal(tags: ImageFileDirectory_v2) -> str:
    """Say what a TIFF file holds that Pillow doesn't read."""
    bits = tags.get(BITSPERSAMPLE, (1, ))
    bands = 'one band' if len(bits) == 1 else f'{len(bits)} bands'
    return (f'is a TIFF file with {bands} of {max(bits)} bits, which Pillow '
            'does not read: save one band as gray or three as RGB, unsigned, '
            'of 8 or 16 bits')
