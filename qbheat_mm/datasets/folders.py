# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Find the image files of a folder."""
import os
import os.path as osp
from collections import Counter
from collections.abc import Sequence

from .images import EXTENSIONS


def scan_folder(folder: str, extensions: Sequence[str] = EXTENSIONS
                ) -> tuple[list[str], Counter]:
    """Find the images in a folder and its subfolders.

    Hidden files and folders are ignored. Linked folders are read once, even
    in cycles.

    Args:
        folder (str): The folder.
        extensions (Sequence[str]): Extensions of images, lower case. Defaults
            to :data:`~qbheat_mm.datasets.images.EXTENSIONS`.

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
