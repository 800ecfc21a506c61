# Copyright (c) QB-Heat MM authors. All rights reserved.
"""List the images of a folder, and count what else lies there."""
import logging
import os
import os.path as osp
from collections import Counter
from collections.abc import Sequence

from mmengine.logging import print_log
from PIL import Image

from ..errors import UserError

#: Extensions of image files, lower case. Pillow may lack the last four.
EXTENSIONS = ('.jpg', '.jpeg', '.jpe', '.jfif', '.png', '.bmp', '.dib',
              '.gif', '.webp', '.tif', '.tiff', '.ppm', '.pgm', '.pbm',
              '.pnm', *(extension for extension in
                        ('.avif', '.heic', '.heif', '.jp2')
                        if extension in Image.registered_extensions()))


class Folder:
    """The images of a folder and its subfolders.

    Hidden files and folders don't count. Links are followed; a folder that
    several names lead to is read once.

    Args:
        path (str): The folder.
        extensions (Sequence[str]): Of images. Defaults to ``EXTENSIONS``.

    Attributes:
        path (str): The folder.
        images (list[str]): Files relative to the folder, sorted.
        classes (list[str]): Folders directly in it, sorted.
        others (Counter): Number of other files, by extension or in words.

    Raises:
        UserError: If a folder cannot be read.
    """

    def __init__(self, path: str,
                 extensions: Sequence[str] = EXTENSIONS) -> None:
        self.path = path
        self.images, self.others = [], Counter()
        extensions = tuple(extension.lower() for extension in extensions)
        seen = {osp.realpath(path)}
        for root, folders, files in os.walk(
                path, onerror=_refuse, followlinks=True):
            folders[:] = self._new(root, folders, seen)
            below = '' if root == path else osp.relpath(root, path)
            if not below:
                self.classes = sorted(folders)
            for name in files:
                if name.startswith('.'):
                    continue
                if name.lower().endswith(extensions):
                    self.images.append(osp.join(below, name))
                else:
                    extension = osp.splitext(name)[1].lower()
                    self.others[extension or 'without extension'] += 1
        self.images.sort()

    def _new(self, root: str, folders: list[str],
             seen: set[str]) -> list[str]:
        """The folders to go on with: links last, each folder once."""
        new = []
        for name in sorted(folders, key=lambda name: (
                osp.islink(osp.join(root, name)), name)):
            if name.startswith('.'):
                continue
            real = osp.realpath(osp.join(root, name))
            if real in seen:
                self.others['links to the same folder'] += 1
                continue
            seen.add(real)
            new.append(name)
        return new

    def describe_others(self) -> str:
        """As "12 .txt, 3 .csv", the most frequent first."""
        kinds = self.others.most_common()
        text = ', '.join(f'{number} {kind}' for kind, number in kinds[:5])
        rest = sum(number for _, number in kinds[5:])
        return f'{text}, {rest} more' if rest else text or 'nothing'

    def warn_of_others(self) -> None:
        """Log what else lies there, if anything does."""
        if self.others:
            print_log(
                f'image folder {self.path!r}: {len(self.images)} images; not '
                f'read: {self.describe_others()}', logger='current',
                level=logging.WARNING)


def _refuse(error: OSError) -> None:
    raise UserError(f'folder {error.filename!r} cannot be read: '
                    f'{error.strerror}') from error
