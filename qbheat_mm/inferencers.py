# Copyright (c) QB-Heat MM authors. All rights reserved.
"""mmpretrain's inferencers name the image that they cannot read.

They load images themselves, by mmcv, whose errors name no file (``!buf.empty()
in function 'imdecode_'``) and which completes cut files with grey areas.
"""
import importlib
import os

import mmcv
import numpy as np

from .datasets.image_file import ImageProblem, decode, read_file
from .errors import UserError

_MODULES = ('feature_extractor', 'image_classification', 'image_retrieval')


def guard_mmpretrain() -> None:
    """Let the inferencers read through :func:`read_image`."""
    for name in _MODULES:
        try:
            module = importlib.import_module(f'mmpretrain.apis.{name}')
        except ImportError:  # another version
            continue
        if getattr(module, 'imread', None) is mmcv.imread:
            module.imread = read_image


def read_image(image: str | os.PathLike | np.ndarray, *args,
               **kwargs) -> np.ndarray:
    """As :func:`mmcv.imread`, strict about files.

    Args:
        image (str | PathLike | np.ndarray): A file, or an image, which is
            returned as it is.
        *args: Of :func:`mmcv.imread`, which then reads.
        **kwargs: Likewise.

    Returns:
        np.ndarray: (H, W, 3), BGR, uint8.

    Raises:
        UserError: If the file is missing, cut, damaged or no image.
    """
    if args or kwargs or not isinstance(image, str | os.PathLike):
        return mmcv.imread(image, *args, **kwargs)
    try:
        return decode(read_file(image))
    except ImageProblem as problem:
        raise UserError(f'image {str(image)!r} {problem}: give another, or '
                        'copy it again') from problem
