# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Find image files in folders."""
import os
import os.path as osp
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

#: Extensions of image files, lower case; the last four if Pillow has them.
EXTENSIONS = ('.jpg', '.jpeg', '.jpe', '.jfif', '.png', '.bmp', '.dib',
              '.gif', '.webp', '.tif', '.tiff', '.ppm', '.pgm', '.pbm',
              '.pnm', *(extension for extension in
                        ('.avif', '.heic', '.heif', '.jp2')
                        if extension in Image.registered_extensions()))


def scan_folder(folder: str, extensions: Sequence[str] = EXTENSIONS
                ) -> tuple[list[str], Counter]:
    """Find the images in a folder and its subfolders.

    Hidden files and folders are ignored. Linked folders are read once, even
    in cycles.

    Args:
        folder (str): The folder.
        extensions (Sequence[str]): Extensions of images, lower case. Defaults
            to :data:`EXTENSIONS`.

    Returns:
        tuple[list[str], Counter]: Sorted paths relative to the folder, and
        the number of other files by extension.

    Raises:
        OSError: If a folder cannot be read.
    """
    images, others, seen = [], Counter(), {osp.realpath(folder)}
    for root, folders, files in os.walk(folder, onerror=_fail,
                                        followlinks=True):
        folders[:] = new_folders(root, folders, seen)
        below = '' if root == folder else osp.relpath(root, folder)
        for name in files:
            if name.startswith('.'):
                continue
            if name.lower().endswith(tuple(extensions)):
                images.append(osp.join(below, name))
            else:
                others[osp.splitext(name)[1].lower() or name] += 1
    return sorted(images), others


def new_folders(root: str, folders: list[str], seen: set[str]) -> list[str]:
    """Return visible folders not seen yet, links last."""
    paths = {name: osp.join(root, name) for name in folders
             if not name.startswith('.')}
    unseen = []
    for name in sorted(paths, key=lambda name: (osp.islink(paths[name]),
                                                name)):
        real = osp.realpath(paths[name])
        if real not in seen:
            seen.add(real)
            unseen.append(name)
    return unseen


def _fail(error: OSError) -> None:
    raise error


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
