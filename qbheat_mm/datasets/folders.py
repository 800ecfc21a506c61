# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Find the image files of a folder."""
import os
import os.path as osp
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from .images import EXTENSIONS

# Where Synology, QNAP, macOS, Windows and Linux keep thumbnails, deleted files
# and snapshots; hidden folders are skipped, too.
_SYSTEM_FOLDER = re.compile(
    r'\..*|@eadir|@tmp|@_*thumb.*|[@#]recycle|#snapshot|@recently-snapshot|'
    r'__macosx|\$recycle\.bin|recycler|lost\+found|'
    r'system volume information|network trash folder', re.IGNORECASE)
# Elsewhere, these may be classes.
_THUMBNAILS = re.compile('_?thumb(nail)?s?', re.IGNORECASE)


class FolderScan(NamedTuple):
    """What a folder holds.

    Attributes:
        files (list[str]): Sorted paths of its images, relative to it.
        others (Counter): The number of other files by extension.
        skipped (Counter): The number of images in skipped folders, by the
            name of the folder.
    """
    files: list[str]
    others: Counter
    skipped: Counter


def scan_folder(folder: str, extensions: Sequence[str] = EXTENSIONS
                ) -> FolderScan:
    """Find the images in a folder and its subfolders.

    Hidden files are ignored; hidden folders and those of thumbnails or
    deleted files are skipped. Linked folders are read once, even in cycles.

    Args:
        folder (str): The folder.
        extensions (Sequence[str]): Extensions of images, lower case. Defaults
            to :data:`~qbheat_mm.datasets.images.EXTENSIONS`.

    Raises:
        OSError: If a folder cannot be read.
    """
    scan = FolderScan([], Counter(), Counter())
    seen, endings = {osp.realpath(folder)}, tuple(extensions)
    for root, folders, files in os.walk(folder, onerror=_fail,
                                        followlinks=True):
        images = []
        for name in files:
            if name.startswith('.'):
                continue
            if name.lower().endswith(endings):
                images.append(name)
            else:
                scan.others[osp.splitext(name)[1].lower() or name] += 1
        for name in folders:
            if is_skipped(name, images):
                scan.skipped[name] += _count(osp.join(root, name), endings)
        folders[:] = new_folders(root, folders, seen, images)
        below = '' if root == folder else osp.relpath(root, folder)
        for name in images:
            scan.files.append(osp.join(below, name))
    scan.files.sort()
    return FolderScan(scan.files, scan.others, +scan.skipped)


def new_folders(root: str, folders: Sequence[str], seen: set[str],
                images: Collection[str] = ()) -> list[str]:
    """Return folders to read that are not seen yet, links last.

    Args:
        root (str): Where they are.
        folders (Sequence[str]): Their names.
        seen (set[str]): Real paths of folders; theirs are added.
        images (Collection[str]): Images beside them.
    """
    paths = {}
    for name in folders:
        if not is_skipped(name, images):
            paths[name] = osp.join(root, name)
    unseen = []
    for name in sorted(paths, key=lambda name: (osp.islink(paths[name]),
                                                name)):
        real = osp.realpath(paths[name])
        if real not in seen:
            seen.add(real)
            unseen.append(name)
    return unseen


def is_skipped(name: str, images: Collection[str] = ()) -> bool:
    """Whether a folder is hidden, or holds thumbnails or deleted files.

    A name that is also an ordinary word counts only beside images.
    """
    return bool(_SYSTEM_FOLDER.fullmatch(name)
                or images and _THUMBNAILS.fullmatch(name))


def _count(folder: str, endings: tuple[str, ...]) -> int:
    """Count images in a folder that is skipped."""
    number = 0
    if osp.islink(folder):
        return number
    for _, _, files in os.walk(folder):
        for name in files:
            number += name.lower().endswith(endings)
    return number


def _fail(error: OSError) -> None:
    raise error
