# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read images at sizes that models accept."""
import logging
from collections.abc import Sequence

import numpy as np
from mmengine.logging import print_log

from ..errors import ImageError, UserError
from .images import read_image


def load_images(files: Sequence[str],
                size: tuple[int, int] | None,
                unit: int = 1) -> tuple[list[str], list[np.ndarray]]:
    """Read images at a size that a model accepts, skipping unreadable files.

    Args:
        files (Sequence[str]): Files.
        size (tuple[int, int], optional): Height and width to scale and crop
            to; None keeps the size of each image, rounded to ``unit``.
        unit (int): Rounds sizes to multiples. Defaults to 1.

    Returns:
        tuple[list[str], list[np.ndarray]]: The readable files and their
        images, (H, W, 3), BGR, uint8.

    Raises:
        UserError: If no file could be read.
    """
    names, images = [], []
    for file in files:
        try:
            image = read_image(file)
        except ImageError as error:
            print_log(f'skipped: {error}', logger='current',
                      level=logging.WARNING)
            continue
        names.append(file)
        images.append(fit(image, size or fitting_size(image.shape[:2], unit)))
    if not images:
        raise UserError(f'none of {len(files)} images could be read; the '
                        f'first is {files[0]!r}')
    return names, images


def fitting_size(size: tuple[int, int], unit: int) -> tuple[int, int]:
    """Round height and width to multiples of ``unit``, at least one."""
    height, width = (max(round(side / unit), 1) * unit for side in size)
    return height, width


def fit(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Scale an image to cover ``size`` (height, width) and crop its center."""
    height, width = size
    ratio = max(height / image.shape[0], width / image.shape[1])
    scaled = (max(round(image.shape[1] * ratio), width),
              max(round(image.shape[0] * ratio), height))
    if scaled != (image.shape[1], image.shape[0]):
        import mmcv  # loads torch
        method = 'area' if ratio < 1 else 'bicubic'
        image = mmcv.imresize(image, scaled, interpolation=method)
    top = (image.shape[0] - height) // 2
    left = (image.shape[1] - width) // 2
    return np.ascontiguousarray(image[top:top + height, left:left + width])
