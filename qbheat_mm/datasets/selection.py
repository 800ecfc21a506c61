# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Choose from many images, and name them briefly."""
import os.path as osp
from collections.abc import Sequence
from pathlib import Path


def spread(items: Sequence, number: int) -> list:
    """Choose ``number`` evenly spaced items, or all if there are fewer.

    The first ones may all be of one class, as folders are sorted by class.
    """
    step = max(len(items) / number, 1)
    return [items[int(i * step)] for i in range(min(number, len(items)))]


def short_names(files: Sequence[str]) -> list[str]:
    """Shorten paths to file names, with parent folders if these coincide.

    Returns:
        list[str]: One for each file; only equal paths have equal names.
    """
    parts = [Path(file).parts for file in files]
    for length in range(1, max(map(len, parts), default=0)):
        names = [osp.join(*some[-length:]) for some in parts]
        if len(set(names)) == len(set(files)):
            return names
    return list(files)
