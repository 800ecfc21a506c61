# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which files of a folder are images, and what else lies there."""
import logging
import os
import os.path as osp
from collections import Counter
from collections.abc import Callable, Sequence

from mmengine.logging import print_log
from PIL import Image

_ALWAYS = ('.jpg', '.jpeg', '.jpe', '.jfif', '.png', '.bmp', '.dib', '.gif',
           '.webp', '.tif', '.tiff', '.ppm', '.pgm', '.pbm', '.pnm')
_WITH_A_DECODER = ('.avif', '.heic', '.heif', '.jp2')
_LISTED = 5  # kinds of other files


def image_endings() -> tuple[str, ...]:
    """Endings of the formats that this installation decodes, lower-case."""
    known = Image.registered_extensions()
    return (*_ALWAYS, *(end for end in _WITH_A_DECODER if end in known))


def _holds(question: Callable[[], bool]) -> bool:
    """Its answer; no for a link that leads to itself or to closed doors."""
    try:
        return question()
    except OSError:
        return False


def class_folders(path: str) -> list[str]:
    """The folders in a folder, sorted; hidden ones do not count.

    They are ``Folder(path).classes``, without looking for all images.
    """
    return sorted(entry.name for entry in os.scandir(path)
                  if not entry.name.startswith('.') and _holds(entry.is_dir))


class Folder:
    """The files of a folder and of the folders inside it.

    Hidden files and folders do not count. Links are followed, except to a
    folder that is read anyway: each is read once, under its own name if it
    has one in here.

    Args:
        path (str): The folder.
        endings (Sequence[str]): Of the images; upper case counts as lower.

    Attributes:
        path (str): The folder.
        images (list[str]): Relative to the folder, sorted.
        classes (list[str]): The folders in it, sorted.
        others (Counter): Number of the files that are no images, by kind:
            an ending, or in words.
    """

    def __init__(self, path: str, endings: Sequence[str]) -> None:
        self.path = path
        self.images, self.classes, self.others = [], [], Counter()
        self._endings = tuple(ending.lower() for ending in endings)
        folders, links, seen = [''], [], set()
        while folders or links:  # links last, when all others are known
            below = folders.pop() if folders else links.pop()
            real = osp.realpath(osp.join(path, below))
            if real in seen:
                self.others['links to folders that are read anyway'] += 1
                continue
            seen.add(real)
            inside = self._scan(osp.join(path, below), below)
            folders += [name for name, is_link in inside if not is_link]
            links += [name for name, is_link in inside if is_link]
            links.sort(reverse=True)
        self.images.sort()
        self.classes.sort()

    def _scan(self, path: str, below: str) -> list[tuple[str, bool]]:
        """Sort in what lies in one folder; ``below`` is its relative path.

        Returns:
            list[tuple[str, bool]]: Relative paths of the folders in it, and
            whether they are links.
        """
        try:
            entries = list(os.scandir(path))
        except OSError:
            self.others['folders that cannot be read'] += 1
            return []
        inside = []
        for entry in entries:
            if entry.name.startswith('.'):
                continue
            name = osp.join(below, entry.name)
            if not _holds(entry.is_dir):
                self._sort_in(entry, name)
                continue
            if not below:
                self.classes.append(entry.name)
            inside.append((name, entry.is_symlink()))
        return inside

    def _sort_in(self, entry: os.DirEntry, name: str) -> None:
        """Put one file where it belongs."""
        if not _holds(entry.is_file):
            is_link = entry.is_symlink()
            self.others['dangling links' if is_link
                        else 'pipes or devices'] += 1
        elif name.lower().endswith(self._endings):
            self.images.append(name)
        else:
            ending = osp.splitext(name)[1].lower()
            self.others[ending or 'files without an ending'] += 1

    def warn_of_others(self, taken: int | None = None) -> None:
        """Log what else lies there, if anything does.

        Args:
            taken (int, optional): How many images are taken; by default all.
        """
        if self.others:
            number = len(self.images) if taken is None else taken
            print_log(
                f'image folder {self.path!r}: {number} images, left out: '
                f'{self.describe_others()}', logger='current',
                level=logging.WARNING)

    def describe_others(self) -> str:
        """As "12 .txt, 3 dangling links", the most frequent first."""
        kinds = self.others.most_common()
        text = ', '.join(f'{number} {kind}' for kind, number in
                         kinds[:_LISTED])
        rest = sum(number for _, number in kinds[_LISTED:])
        # A file's name may hold anything.
        text = repr(text)[1:-1]
        return f'{text}, {rest} others' if rest else text
