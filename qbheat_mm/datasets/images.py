# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read image files: simplejpeg for JPEG, Pillow for all other formats."""
import io
import logging
import math
import os.path as osp
import re
import warnings

import numpy as np
import simplejpeg
from mmengine import fileio
from mmengine.logging import print_log
from PIL import ExifTags, Image, UnidentifiedImageError

from ..errors import UserError

#: Sides of JPEG files can be divided by these while decoding.
REDUCTIONS = (1, 2, 4, 8)
# Pillow also knows formats that start other programs.
_FORMATS = ('AVIF', 'BMP', 'DIB', 'GIF', 'HEIF', 'JPEG', 'JPEG2000', 'MPO',
            'PNG', 'PPM', 'TIFF', 'WEBP')
# What libjpeg says where it goes on with wrong pixels.
_DAMAGE = re.compile('Corrupt JPEG data|Inconsistent progression|Invalid SOS')
_DARK = 32 << 8  # 13 bits don't get there


class ImageError(UserError):
    """An image file that cannot be used; the message names it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f'image {str(path)!r} {" ".join(problem.split())}')


class DamagedImageError(ImageError):
    """A JPEG file that decodes, but to wrong pixels."""


class ImageFile:
    """An image file; of JPEG files the size is known before decoding.

    Args:
        path (str): The file.
        backend_args (dict, optional): Of mmengine's file backends. Defaults
            to None.
        use_exif (bool): Whether to turn the image as its EXIF orientation
            says. Defaults to True.

    Attributes:
        path (str): The file.
        shape (tuple[int, int]): Height and width, upright.
        orientation (int): EXIF orientation, 1 (upright) to 8.
        reducible (bool): Whether it can be decoded at a reduced size.

    Raises:
        ImageError: If the file is missing, too large or no image.
    """

    def __init__(self, path: str, backend_args: dict | None = None,
                 use_exif: bool = True) -> None:
        self.path = path
        self.orientation = 1
        self.reducible = False
        self._content = _read_bytes(path, backend_args)
        self._pixels = None
        try:
            self.shape = simplejpeg.decode_jpeg_header(self._content)[:2]
        except ValueError:  # another format, or a rare kind of JPEG
            self._decode_with_pillow(use_exif)
            return
        if math.prod(self.shape) > 2 * (Image.MAX_IMAGE_PIXELS or math.inf):
            height, width = self.shape
            raise ImageError(path, f'is too large, {width} x {height} pixels')
        if use_exif and b'Exif' in self._content[:1 << 17]:
            with _open(path, self._content) as image:
                self.orientation = _orientation(image)
        self.reducible = self.orientation == 1
        if self.orientation > 4:
            self.shape = self.shape[::-1]

    def decode(self, reduction: int = 1, strict: bool = True) -> np.ndarray:
        """Decode the image, of an animation the first frame.

        Args:
            reduction (int): One of :data:`REDUCTIONS`; above 1 only if
                ``reducible``. Defaults to 1.
            strict (bool): Whether damage is an error. Defaults to True.

        Returns:
            np.ndarray: (H / reduction, W / reduction, 3), rounded up, BGR,
            uint8. Alpha is dropped; of 16 bits the upper 8 are kept.

        Raises:
            DamagedImageError: A JPEG file is damaged.
            ImageError: The file is truncated or cannot be decoded.
        """
        if self._pixels is not None:
            return self._pixels
        size = {}
        if reduction > 1:
            height, width = (-(-side // reduction) for side in self.shape)
            size = dict(min_height=height, min_width=width)
        try:
            pixels = simplejpeg.decode_jpeg(
                self._content, 'BGR', strict=strict, **size)
        except ValueError as error:
            kind = (DamagedImageError if _DAMAGE.search(str(error))
                    else ImageError)
            raise kind(self.path, f'is damaged ({error})') from error
        return _turn(pixels, self.orientation)

    def _decode_with_pillow(self, use_exif: bool) -> None:
        """Decode at once: Pillow turns some formats while it reads them."""
        with _open(self.path, self._content) as image:
            try:
                with _open(self.path, self._content) as other:
                    other.verify()  # the check sums of PNG, which load skips
                image.load()
            except Exception as error:  # each format has its own errors
                raise ImageError(
                    self.path, f'is damaged ({error})') from error
            if use_exif:
                self.orientation = _orientation(image)
            pixels = _to_rgb(self.path, image)[..., ::-1]
        self._pixels = _turn(pixels, self.orientation)
        self.shape = self._pixels.shape[:2]


def read_image(path: str, backend_args: dict | None = None) -> np.ndarray:
    """Read an image file, upright by its EXIF orientation.

    Returns:
        np.ndarray: (H, W, 3), BGR, uint8.

    Raises:
        ImageError: If the file is missing, damaged or no image.
    """
    return ImageFile(path, backend_args).decode()


def _read_bytes(path: str, backend_args: dict | None) -> bytes:
    is_local = backend_args is None and '://' not in str(path)
    if is_local and not osp.isfile(path):  # reading a pipe would block
        raise ImageError(path, 'does not exist or is not a regular file')
    try:
        if is_local:
            with open(path, 'rb') as file:
                content = file.read()
        else:
            content = fileio.get(path, backend_args=backend_args)
    except Exception as error:  # each storage has its own errors
        raise ImageError(path, f'cannot be read: {error}') from error
    if not content:
        raise ImageError(path, 'is empty')
    return content


def _open(path: str, content: bytes) -> Image.Image:
    """Let Pillow read the header."""
    Image.init()
    formats = [name for name in _FORMATS if name in Image.OPEN]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            return Image.open(io.BytesIO(content), formats=formats)
        except UnidentifiedImageError as error:
            raise ImageError(path, 'is not an image') from error
        except Exception as error:  # each format has its own errors
            raise ImageError(path, f'is damaged ({error})') from error


def _orientation(image: Image.Image) -> int:
    try:
        found = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # unreadable EXIF data turn nothing
        return 1
    return found if found in range(1, 9) else 1


def _turn(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Turn an image (H, W, 3) upright."""
    if orientation > 4:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def _to_rgb(path: str, image: Image.Image) -> np.ndarray:
    """Convert to 8 bits, (H, W, 3)."""
    if not image.mode.startswith(('I', 'F')):
        return np.asarray(image.convert('RGB'))
    gray = np.asarray(image)
    if image.mode == 'F' or gray.min() < 0 or gray.max() > 65535:
        raise ImageError(path, f'has the mode {image.mode!r}: convert it to '
                         '8 bits')
    if gray.max() < _DARK:
        _warn_of_dark_images(str(path))
    return np.repeat((gray >> 8).astype(np.uint8)[..., None], 3, axis=2)


def _warn_of_dark_images(path: str) -> None:
    """Warn once: microscopes and detectors write 12 bits into 16."""
    if not _warned:
        _warned.append(path)
        print_log(
            f'image {path!r} has 16 bits, of which the upper 8 are used, and '
            'is nearly black, as others may be: scale such images to all 16 '
            'bits', logger='current', level=logging.WARNING)


_warned: list[str] = []
