# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A picture of known size that nobody has decoded yet."""
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .declared_size import turned_by
from .image_file import REDUCTIONS
from .integrity import JPEG, examine


@dataclass(frozen=True)
class UndecodedImage:
    """A JPEG file, read and found whole.

    Attributes:
        content: The file.
        shape: (H, W, 3) of the picture.
        decode: From one of ``REDUCTIONS`` to the picture, (H / reduction,
            W / reduction, 3), sides rounded up, BGR, uint8; None if the file
            turns out damaged and such files are passed over.
    """
    content: bytes
    shape: tuple[int, int, int]
    decode: Callable[[int], np.ndarray | None]

    def reduction_for(self, crop: tuple[int, int], size: tuple[int, int],
                      oversampling: float) -> int:
        """The largest reduction that leaves enough pixels of a crop.

        Args:
            crop (tuple[int, int]): Height and width of the crop.
            size (tuple[int, int]): What it will be resized to.
            oversampling (float): How many times as many pixels, along each
                side, the reduced crop must have.

        Returns:
            int: One of ``REDUCTIONS``.
        """
        enough = [
            reduction for reduction in REDUCTIONS
            if all(side >= reduction * oversampling * wanted
                   for side, wanted in zip(crop, size, strict=True))
        ]
        return max(enough, default=1)


def shape_of(content: bytes, flag: str,
             backend: str | None) -> tuple[int, int, int] | None:
    """The shape of a file that may be decoded at a reduced size.

    Args:
        content (bytes): The file.
        flag (str): What is wanted of it, as in :func:`mmcv.imfrombytes`.
        backend (str, optional): As in :func:`mmcv.imfrombytes`.

    Returns:
        tuple[int, int, int] | None: (H, W, 3). None for a file of another
        format, that is not whole, that EXIF data turn, or that is wanted
        otherwise than in colour by OpenCV.
    """
    if (flag, backend) != ('color', 'cv2') or not content.startswith(JPEG):
        return None
    wrong, size = examine(content)
    if wrong or not size or not all(size) or turned_by(content):
        return None
    return size[1], size[0], 3
