# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read and decode one image file, or say what is wrong with it."""
import functools
import io
import os
import re
import stat
import warnings

import cv2
import mmcv
import numpy as np
from mmengine import fileio
from PIL import ExifTags, Image, ImageOps

from .integrity import PNG, examine
from .stderr import call_and_listen, pass_on

# Formats of photographs and drawings: Pillow also knows some that start
# other programs.
_PILLOW_FORMATS = ('AVIF', 'BMP', 'DIB', 'GIF', 'HEIF', 'JPEG', 'JPEG2000',
                    'MPO', 'PNG', 'PPM', 'TIFF', 'WEBP')
_MAX_BYTES = 2**31 - 1
_KINDS = {stat.S_ISDIR: 'a folder', stat.S_ISFIFO: 'a pipe',
          stat.S_ISSOCK: 'a socket', stat.S_ISCHR: 'a device',
          stat.S_ISBLK: 'a device'}
# What libjpeg and OpenCV print when they go on after an error. A colour
# profile changes no pixel.
_DAMAGE = re.compile(
    r'Corrupt JPEG data: (?!bad ICC).*|Premature end of JPEG file'
    r'|Inconsistent progression sequence.*|Invalid SOS parameters.*'
    r'|\[\s*ERROR:.*')
_REDUCED = {2: cv2.IMREAD_REDUCED_COLOR_2, 4: cv2.IMREAD_REDUCED_COLOR_4,
            8: cv2.IMREAD_REDUCED_COLOR_8}
_TIFF = (b'II*\0', b'MM\0*')
_BITS_PER_SAMPLE = 258  # the tag of TIFF
_DARK = 32  # of 255; 12 bits in 16 reach 15, 13 bits 31
#: Sides of JPEG files can be divided by these while they are decoded.
REDUCTIONS = (1, *_REDUCED)


def pillow_formats() -> list[str]:
    """Formats that Pillow may open, of those that it has a decoder for."""
    Image.init()
    return [form for form in _PILLOW_FORMATS if form in Image.OPEN]


class ImageProblem(Exception):
    """What is wrong with a file, as the end of "image X ..."."""


class ScanDamage(ImageProblem):
    """The decoder filled in what it could not read."""

    def __init__(self, message: str, image: np.ndarray) -> None:
        super().__init__(message)
        self.image = image


def read_file(path: str, backend_args: dict | None = None) -> bytes:
    """The bytes of an image file.

    Raises:
        ImageProblem: There is no such file, or it is none that ends.
    """
    try:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f'{type(path).__name__} is no path')
        if backend_args is None and '://' not in str(path):
            _require_regular_file(path)
        content = fileio.get(path, backend_args=backend_args)
    except ImageProblem:
        raise
    except Exception as error:
        # Each storage has errors of its own; the cause stays attached.
        reason = getattr(error, 'strerror', None) or _one_line(error)
        raise ImageProblem(f'cannot be read ({reason})') from error
    if not content:
        raise ImageProblem('is empty')
    return content


def _require_regular_file(path: str) -> None:
    """Reading a pipe waits for ever, and some devices have no end."""
    status = os.stat(path)
    for is_kind, name in _KINDS.items():
        if is_kind(status.st_mode):
            raise ImageProblem(f'is {name}')
    if status.st_size > _MAX_BYTES:
        raise ImageProblem(f'is too large ({status.st_size / 2**30:.1f} GiB)')


def decode(content: bytes, flag: str = 'color',
           backend: str | None = 'cv2', reduction: int = 1) -> np.ndarray:
    """Decode an image file, of an animation the first picture.

    Args:
        content (bytes): The file.
        flag (str): As in :func:`mmcv.imfrombytes`. Defaults to 'color'.
        backend (str, optional): As in :func:`mmcv.imfrombytes`. Defaults to
            'cv2'.
        reduction (int): One of ``REDUCTIONS``; above 1 of JPEG files only,
            in colour, by OpenCV. Defaults to 1.

    Returns:
        np.ndarray: (H, W, 3), BGR, uint8, unless ``flag`` says otherwise;
        sides are divided by ``reduction`` and rounded up.

    Raises:
        ScanDamage: The decoder went on after an error; the image is attached.
        ImageProblem: The file is cut, damaged, too large or no image.
    """
    wrong, size = examine(content)
    if wrong:
        raise ImageProblem(f'is {wrong}')
    form = None
    if size is None:
        form, size = _open_with_pillow(content)
    _limit_size(size)
    if form and backend == 'cv2' and not _opencv_reads(form):
        backend = 'pillow'

    def run() -> np.ndarray:
        if reduction == 1:
            return mmcv.imfrombytes(content, flag=flag, backend=backend)
        return cv2.imdecode(np.frombuffer(content, np.uint8),
                            _REDUCED[reduction])

    try:
        image, text = call_and_listen(run)
    except Exception as error:
        raise ImageProblem('is no image that can be decoded') from error
    if image is None:
        raise ImageProblem('is no image that can be decoded')
    if damage := _DAMAGE.search(text):
        pass_on(''.join(line for line in text.splitlines(keepends=True)
                        if not _DAMAGE.search(line)))
        raise ScanDamage(f'is damaged ({_one_line(damage[0])})', image)
    pass_on(text)
    return image


def is_nearly_black(content: bytes, image: np.ndarray) -> bool:
    """Whether what a file of 16 bits holds was lost with the lower 8 of them.

    Microscopes and X-ray detectors write 12 bits into 16 without scaling.

    Args:
        content (bytes): The file.
        image (ndarray): The decoded picture, uint8.
    """
    if not content.startswith((PNG, *_TIFF)) or (
            image.dtype != np.uint8 or int(image.max()) >= _DARK):
        return False
    if content.startswith(PNG):
        return content[24:25] == b'\x10'
    try:
        with io.BytesIO(content) as file, Image.open(file) as tiff:
            return max(tiff.tag_v2[_BITS_PER_SAMPLE]) == 16
    except Exception:  # OpenCV reads some that Pillow does not
        return False


def _limit_size(size: tuple[int, int] | None) -> None:
    """Some kilobytes may unpack to more than there is memory."""
    limit = Image.MAX_IMAGE_PIXELS
    if size and limit and size[0] * size[1] > 2 * limit:
        raise ImageProblem(
            f'is too large ({size[0]} x {size[1]} pixels, of at most '
            f'{2 * limit}, Pillow\'s limit)')


def _open_with_pillow(content: bytes) -> tuple[str | None, tuple | None]:
    """Format and size; decode it, too, since Pillow tells what is missing.

    OpenCV returns cut and damaged files of some formats as if they were whole.
    """
    with warnings.catch_warnings(), io.BytesIO(content) as file:
        warnings.simplefilter('ignore')
        try:
            image = Image.open(file, formats=pillow_formats())
        except Image.DecompressionBombError as error:
            raise ImageProblem(f'is too large ({_one_line(error)})') from error
        except Exception:  # not of these formats, or not readable at all
            return None, None
        form, size = image.format, image.size
        _limit_size(size)
        try:
            image.load()
        except Exception as error:
            raise ImageProblem(
                f'is cut or damaged ({_one_line(error)})') from error
    return form, size


@functools.cache
def _opencv_reads(form: str) -> bool:
    """Whether this OpenCV decodes a format, and turns it as the file says.

    Tried on a tiny picture that is to be turned, where a format can say so.
    """
    file = io.BytesIO()
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    try:
        Image.new('RGB', (32, 16)).save(file, form, exif=exif)
        shown = ImageOps.exif_transpose(Image.open(file)).size
        image, _ = call_and_listen(lambda: mmcv.imfrombytes(file.getvalue()))
    except Exception:
        return False
    return image is not None and image.shape[1::-1] == shown


def _one_line(error: Exception | str) -> str:
    return ' '.join(str(error).split())
