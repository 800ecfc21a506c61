# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Open images with Pillow and decode them to RGB of 8 bits."""
import io
import os.path as osp
import warnings
from itertools import count

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError
from PIL.TiffImagePlugin import BITSPERSAMPLE, PLANAR_CONFIGURATION

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
# More than markers, scales and dead pixels have.
_BRIGHT_SHARE = 0.05
_SUBFILE_TYPE, _REDUCED, _MASK = 254, 1, 4
_TIFF = (b'II*\0', b'MM\0*', b'II+\0', b'MM\0+')
_OTHER_TIFF = ('is a TIFF file of a kind that Pillow does not read: save one '
               'band as gray or three as RGB, interleaved, unsigned, of 8 or '
               '16 bits')


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
            is_tiff = content[:4] in _TIFF
            raise ImageError(path, _OTHER_TIFF if is_tiff
                             else 'is not an image') from error
        except Exception as error:  # each format has its own errors
            raise ImageError(path, f'is damaged ({error})') from error


def require_one_page(path: str, image: Image.Image) -> None:
    """Raise ImageError if a TIFF file has several images.

    Reduced copies and masks belong to another image and don't count.
    """
    if image.format != 'TIFF' or not image.is_animated:
        return
    pages = 0
    for page in count():
        try:
            image.seek(page)
        except EOFError:
            break
        except Exception:  # a kind of mask that Pillow does not decode
            if image.tell() != page:  # a damaged file
                break
        kind = image.tag_v2.get(_SUBFILE_TYPE, 0)
        pages += not kind & (_REDUCED | _MASK)
    image.seek(0)
    if pages > 1:
        raise ImageError(path, f'has {pages} pages, of which only the first '
                         "would be read: save each as a file ('tiffsplit "
                         "FILE' does)")


def to_rgb(path: str, image: Image.Image) -> np.ndarray:
    """Decode an image to RGB.

    Args:
        path (str): The file, for messages.
        image (Image.Image): The image.

    Returns:
        np.ndarray: (H, W, 3), uint8, the upper 8 of 16 bits, as stored: see
        :func:`orientation_of`.

    Raises:
        ImageError: If it is damaged, or has values of more than 16 bits.
    """
    if image.format == 'TIFF' and _has_misread_planes(image):
        raise ImageError(path, _OTHER_TIFF)
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
    if has_16_bits and (rgb >= _DARK >> 8).mean() < _BRIGHT_SHARE:
        # Python shows it once for each folder.
        warnings.warn(f"16-bit images in '{osp.dirname(path)}' are nearly "
                      'black: 95 % of the values are below 8192, and the '
                      'upper 8 bits are used; scale them to all 16 bits',
                      stacklevel=2)
    return rgb


def orientation_of(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 (upright) to 8.

    Ask after decoding: Pillow rotates some formats while it decodes them.
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


def _has_misread_planes(image: Image.Image) -> bool:
    """Whether Pillow 13 takes uncompressed planes of 16 bits for 8 bits."""
    bits = image.tag_v2.get(BITSPERSAMPLE, (1, ))
    separate = image.tag_v2.get(PLANAR_CONFIGURATION) == 2 and len(bits) > 1
    return separate and max(bits) > 8 and image.tile[0].codec_name == 'raw'
