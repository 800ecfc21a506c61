# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read image files: JPEG with simplejpeg, others with Pillow."""
import os.path as osp
import re
from collections.abc import Mapping

import numpy as np
import simplejpeg
from mmengine import fileio
from PIL import Image

from ..errors import ImageError
from .pillow_image import (
    open_image,
    orientation_of,
    require_one_page,
    rotate,
    to_rgb,
)

#: Extensions of image files, lower case.
EXTENSIONS = ('.jpg', '.jpeg', '.jpe', '.jfif', '.png', '.bmp', '.dib',
              '.gif', '.webp', '.tif', '.tiff', '.ppm', '.pgm', '.pbm',
              '.pnm')
for _extension in ('.avif', '.heic', '.heif', '.jp2'):
    if _extension in Image.registered_extensions():
        EXTENSIONS += (_extension, )
#: Factors by which the sides of JPEG files can be reduced while decoding.
REDUCTIONS = (1, 2, 4, 8)
# Warnings of libjpeg before it continues with wrong pixels.
_DAMAGE = re.compile('Corrupt JPEG data|Inconsistent progression|Invalid SOS')


class DamagedImageError(ImageError):
    """A JPEG file decodes to wrong pixels."""


class ImageFile:
    """An image file; the size of JPEG files is known before decoding.

    Args:
        path (str): The file.
        backend_args (dict, optional): Arguments of mmengine's file backend.
            Defaults to None.
        use_exif (bool): Whether to apply the EXIF orientation. Defaults to
            True.

    Attributes:
        path (str): The file.
        shape (tuple[int, int]): Height and width, upright.
        orientation (int): EXIF orientation, 1 (upright) to 8.
        reducible (bool): Whether it can be decoded at a reduced size.

    Raises:
        ImageError: If the file is missing, too large or not an image.
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
        with open_image(path, self._content) as image:
            if use_exif:  # otherwise opened only to refuse too large ones
                self.orientation = orientation_of(image)
        self.reducible = self.orientation == 1
        if self.orientation > 4:
            self.shape = self.shape[::-1]

    def reduction(self, height: float, width: float) -> int:
        """Return the largest reduction that leaves this size; 1 if none."""
        spare = min(self.shape[0] / height, self.shape[1] / width)
        fitting = [factor for factor in REDUCTIONS if factor <= spare]
        return max(fitting, default=1) if self.reducible else 1

    def require_size(self, height: int, width: int) -> None:
        """Raise ImageError unless the annotation file gives this size.

        Boxes drawn on another image, or before rotation, would be wrong.
        """
        if (height, width) != self.shape:
            raise ImageError(
                self.path, f'has {self.shape[1]}x{self.shape[0]} pixels, but '
                f'the annotation file says {width}x{height}: correct the '
                'file, or, if boxes were drawn without EXIF rotation, set '
                "color_type='color_ignore_orientation' when loading")

    def decode(self, reduction: int = 1, strict: bool = True) -> np.ndarray:
        """Decode the image, or the first frame of an animation.

        Args:
            reduction (int): One of :data:`REDUCTIONS`; above 1 only if
                ``reducible``. Defaults to 1.
            strict (bool): Whether damage is an error. Defaults to True.

        Returns:
            np.ndarray: (H / reduction, W / reduction, 3), rounded up, BGR,
            uint8. Alpha is dropped; the upper 8 of 16 bits are kept.

        Raises:
            DamagedImageError: A JPEG file is damaged.
            ImageError: The file is truncated or cannot be decoded.
        """
        if self._pixels is not None:
            return self._pixels
        size = {}
        if reduction > 1:
            height, width = self.shape
            size = dict(min_height=-(-height // reduction),
                        min_width=-(-width // reduction))
        try:
            pixels = simplejpeg.decode_jpeg(
                self._content, 'BGR', strict=strict, **size)
        except ValueError as error:
            kind = (DamagedImageError if _DAMAGE.search(str(error))
                    else ImageError)
            raise kind(self.path, f'is damaged ({error})') from error
        return rotate(pixels, self.orientation)

    def _decode_with_pillow(self, use_exif: bool) -> None:
        """Decode at once: Pillow rotates some formats while reading them."""
        with open_image(self.path, self._content) as image:
            try:
                image.verify()  # PNG's checksums, which load() skips
            except Exception as error:  # each format has its own errors
                raise ImageError(
                    self.path, f'is damaged ({error})') from error
        with open_image(self.path, self._content) as image:
            require_one_page(self.path, image)
            pixels = to_rgb(self.path, image)[..., ::-1]
            if use_exif:
                self.orientation = orientation_of(image)
        self._pixels = rotate(pixels, self.orientation)
        self.shape = self._pixels.shape[:2]


def read_image(path: str, backend_args: dict | None = None) -> np.ndarray:
    """Read an image file and apply its EXIF orientation.

    Returns:
        np.ndarray: (H, W, 3), BGR, uint8.

    Raises:
        ImageError: If the file is missing, damaged or not an image.
    """
    return ImageFile(path, backend_args).decode()


def is_local(path: str, backend_args: Mapping | None = None) -> bool:
    """Whether mmengine reads a path or URL from the local file system."""
    backend = (backend_args or {}).get('backend', 'local')
    return '://' not in path and backend == 'local'


def describe_missing(path: str) -> str:
    """Say why there is no file, also where a broken link points to."""
    if osp.islink(path) and not osp.exists(path):
        return (f'is a link to {osp.realpath(path)!r}, which does not exist: '
                'move the images back, or prepare the data again (--copy '
                'copies images instead of linking them)')
    return 'does not exist or is not a regular file'


def _read_bytes(path: str, backend_args: dict | None) -> bytes:
    # Reading a pipe would block.
    if is_local(str(path), backend_args) and not osp.isfile(path):
        raise ImageError(path, describe_missing(path))
    try:
        content = fileio.get(path, backend_args=backend_args)
    except Exception as error:  # each storage has its own errors
        raise ImageError(path, f'cannot be read: {error}') from error
    if not content:
        raise ImageError(path, 'is empty')
    return content
