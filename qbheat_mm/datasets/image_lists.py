# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Images for a look at a trained model: find, load and fit them."""
import logging
import os
import os.path as osp
from collections.abc import Sequence
from pathlib import Path

import mmcv
import numpy as np
from mmengine.logging import print_log

from ..errors import UserError
from .image_folder import Folder
from .images import ImageError, read_image


def find_images(paths: Sequence[str]) -> list[str]:
    """Files, and the images in folders and in the folders inside those.

    Args:
        paths (Sequence[str]): Files and folders.

    Returns:
        list[str]: Files as given, those of a folder sorted.

    Raises:
        UserError: A path that does not exist, a folder without images.
    """
    found = []
    for path in paths:
        if not osp.exists(path):
            raise UserError(f'image {path!r} does not exist: the path is '
                            f'taken from {os.getcwd()!r}')
        found += _images_below(path) if osp.isdir(path) else [path]
    return found


def _images_below(path: str) -> list[str]:
    """The images of a folder, sorted."""
    folder = Folder(path)
    if not folder.images:
        raise UserError(
            f'folder {path!r} holds no image: found '
            f'{folder.describe_others()}')
    folder.warn_of_others()
    return [osp.join(path, name) for name in folder.images]


def spread(items: Sequence, number: int) -> list:
    """``number`` of the items, evenly spread, or all if there are fewer.

    Folders are sorted by class: the first ones would be of one class.
    """
    step = max(len(items) / number, 1)
    return [items[int(i * step)] for i in range(min(number, len(items)))]


def short_names(files: Sequence[str]) -> list[str]:
    """File names, with as many folders as tell the files apart.

    Returns:
        list[str]: One for each file; equal ones are of one and the same path.
    """
    parts = [Path(file).parts for file in files]
    for length in range(1, max(map(len, parts), default=0)):
        names = [osp.join(*some[-length:]) for some in parts]
        if len(set(names)) == len(set(files)):
            return names
    return list(files)


def load_images(files: Sequence[str],
                size: tuple[int, int] | None,
                unit: int = 1) -> tuple[list[str], list[np.ndarray]]:
    """Load what can be loaded and bring it to a size that a model accepts.

    Greyscale, transparent and CMYK files become three channels, as in
    training. A file that is cut or no image is named in a warning and left
    out.

    Args:
        files (Sequence[str]): Files.
        size (tuple[int, int], optional): Height and width to scale and crop
            to; None keeps each image's own size, rounded to ``unit``.
        unit (int): What own sizes become multiples of. Defaults to 1.

    Returns:
        tuple[list[str], list[np.ndarray]]: The files that could be loaded
        and their images, (H, W, 3), BGR, uint8.

    Raises:
        UserError: No file could be loaded.
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
        images.append(fit(image, size or fitting_size(image, unit)))
    if not images:
        raise UserError(f'none of {len(files)} files could be loaded, see '
                        f'the warnings above (the first is {files[0]!r})')
    return names, images


def fitting_size(image: np.ndarray, unit: int) -> tuple[int, int]:
    """The multiples of ``unit`` nearest to height and width."""
    height, width = (max(round(n / unit), 1) * unit for n in image.shape[:2])
    return height, width


def fit(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Scale an image to cover ``size`` (height, width) and crop its middle."""
    height, width = size
    ratio = max(height / image.shape[0], width / image.shape[1])
    scaled = (max(round(image.shape[1] * ratio), width),
              max(round(image.shape[0] * ratio), height))
    if scaled != (image.shape[1], image.shape[0]):
        method = 'area' if ratio < 1 else 'bicubic'
        image = mmcv.imresize(image, scaled, interpolation=method)
    top = (image.shape[0] - height) // 2
    left = (image.shape[1] - width) // 2
    return np.ascontiguousarray(image[top:top + height, left:left + width])
