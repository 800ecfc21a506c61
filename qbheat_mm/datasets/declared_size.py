# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Is the decoded picture the one that the boxes were drawn on?"""
import io
import warnings
from collections.abc import Mapping

import numpy as np
from PIL import Image

from .image_file import ImageProblem, decode, pillow_formats

_ORIENTATION = 274  # tag of EXIF
_WAY_OUT = ("if the boxes belong to the pixels as they are stored, write "
            "color_type='color_ignore_orientation' in the loading transform "
            'of all pipelines')


class OtherPicture(ImageProblem):
    """The annotation file describes another picture."""

    def __init__(self, message: str, way_out: str) -> None:
        super().__init__(message)
        self.way_out = way_out


def check_declared_size(results: Mapping, image: np.ndarray,
                        content: bytes) -> str | None:
    """Compare a picture with the size in the annotation file.

    A camera held upright stores a turned picture and the orientation in the
    EXIF data. Some tools for annotation show and describe the turned picture,
    others the stored pixels. The declared size tells which, but not where the
    orientation is a half turn or a mirror, or the picture square.

    Args:
        results (Mapping): Of a data set; nothing is compared without
            ``height`` and ``width``.
        image (np.ndarray): Decoded, (H, W, ...).
        content (bytes): The file.

    Returns:
        str | None: A warning, where the size cannot tell.

    Raises:
        OtherPicture: With what does not fit.
    """
    declared = results.get('height'), results.get('width')
    if None in declared:
        return None
    shape = image.shape[:2]
    turned = turned_by(content)
    if declared != shape:
        message = (f'has {shape[1]} x {shape[0]} pixels, but the annotation '
                   f'file declares {declared[1]} x {declared[0]}')
        if turned and turned > 4 and declared == shape[::-1]:
            if _stored_shape(content) == shape:  # the orientation is ignored
                raise OtherPicture(
                    f'{message}, as with its EXIF orientation {turned}',
                    "leave out color_type='color_ignore_orientation' in the "
                    'loading transform of all pipelines')
            raise OtherPicture(
                f'{message}, as without its EXIF orientation {turned}',
                _WAY_OUT)
        raise OtherPicture(
            message, 'boxes of another size do not fit: correct width and '
            'height if the boxes were drawn on this picture, else give the '
            'picture that they were drawn on')
    if turned and (turned <= 4 or shape[0] == shape[1]):
        stored = decode(content, 'color_ignore_orientation')
        if not np.array_equal(stored, image):
            return (f'is turned by its EXIF orientation {turned}, and its '
                    'size does not tell whether the boxes are: they must be '
                    f'drawn on the picture as it is shown; {_WAY_OUT}')
    return None


def _stored_shape(content: bytes) -> tuple[int, int]:
    """Height and width without the orientation in the EXIF data."""
    with warnings.catch_warnings(), Image.open(
            io.BytesIO(content), formats=pillow_formats()) as image:
        warnings.simplefilter('ignore')
        return image.height, image.width


def turned_by(content: bytes) -> int | None:
    """The orientation in the EXIF data, 2 to 8, or None if upright."""
    if content.startswith(b'\xff\xd8') and b'Exif' not in content[:2**17]:
        return None
    with warnings.catch_warnings(), io.BytesIO(content) as file:
        warnings.simplefilter('ignore')
        try:
            image = Image.open(file, formats=pillow_formats())
            turned = image.getexif().get(_ORIENTATION)
        except Exception:
            return None
    return turned if turned in range(2, 9) else None
