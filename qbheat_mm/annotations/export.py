# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The files and the content of an export, and an account of both."""
import json
import os.path as osp
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import ParseError

from msgspec import MsgspecError, Struct, field
from yaml import YAMLError

from ..datasets.images import EXTENSIONS, scan_folder
from ..errors import UserError

_SPLITS = dict(train='train', training='train', val='val', valid='val',
               validation='val', test='test', testing='test')
# Label Studio puts eight hexadecimal digits in front of uploaded files.
_HASH = re.compile(r'^[0-9a-f]{8}-')


class Box(Struct, gc=False, kw_only=True):
    """An object: its class and (x, y, width, height) in pixels from 0.

    Fields have the names of COCO in files.
    """
    label: str | int | None = field(default=None, name='category_id')
    bbox: list[float] | None = None
    mask: list[list[float] | float] | dict[str, Any] | None = field(
        default=None, name='segmentation')
    crowd: bool | float | None = field(default=False, name='iscrowd')

    def surround(self, points: list[float]) -> 'Box':
        """Take the box around points (x1, y1, x2, y2, ...)."""
        x, y = min(points[::2]), min(points[1::2])
        self.bbox = [x, y, max(points[::2]) - x, max(points[1::2]) - y]
        return self


class Picture(Struct):
    """An image, as the file ``source`` of an export describes it."""
    name: str
    source: str
    boxes: list[Box]
    split: str = ''  # or 'train', 'val', 'test'
    size: tuple[int, int] | None = None  # (1, 1) if boxes are fractions
    file: str = ''  # path, once it is found
    hash: Any = None  # perceptual, (256,), bool, once it is opened


class Account(dict):
    """Numbers and examples of what was put right or left out."""

    def note(self, kind: str, what: str, example: object = '',
             number: int = 1) -> None:
        """Count an event of a kind, such as ``'boxes left out'``."""
        if number:
            self.setdefault((kind, what), [0, str(example)])[0] += number

    def put_right(self, what: str, example: object = '',
                  number: int = 1) -> None:
        """Count what is strange but unambiguous."""
        self.note('put right', what, example, number)

    def leave_out(self, picture: Picture, why: str,
                  example: object = '') -> None:
        """Count an image and its boxes that are not used."""
        self.note('images left out', why, example or picture.name)
        self.note('boxes left out', 'of images that are left out',
                  picture.name, len(picture.boxes))


class Files:
    """The files of an export, and its images, perhaps in another folder."""

    def __init__(self, folder: str, images: str | None,
                 account: Account) -> None:
        for path in filter(None, (folder, images)):
            if not osp.exists(path):
                raise UserError(f"'{path}' does not exist")
        self.account = account
        self.only = '' if osp.isdir(folder) else osp.abspath(folder)
        self.root = osp.abspath(osp.dirname(folder) if self.only else folder)
        self.image_root = osp.abspath(images or self.root)
        self.images = _scan(self.image_root, EXTENSIONS)
        self._by_name = defaultdict(list)
        for path in self.images:
            for name in names_of(path):
                self._by_name[name].append(path)

    def find(self, *extensions: str) -> list[str]:
        """List the files with these extensions, or the one to read."""
        if extensions == ('.txt', ):  # they belong to others, or to images
            return [*dict.fromkeys(_scan(self.root, extensions)
                                   + _scan(self.image_root, extensions))]
        if self.only:
            return [self.only] * self.only.lower().endswith(extensions)
        return _scan(self.root, extensions)

    def read(self, path: str) -> str:
        """Read a text file."""
        content = Path(path).read_bytes()
        encoding = json.detect_encoding(content)
        self.account.put_right('files with a byte order mark', path,
                               encoding != 'utf-8')
        with reading(path):
            return content.decode(encoding)

    def lines(self, path: str) -> list[str]:
        """Read the lines of a text file that are not blank."""
        return [*filter(None, map(str.strip, self.read(path).split('\n')))]

    def below(self, path: str) -> list[str]:
        """Parts of a path, relative to the export or its images."""
        return path.removeprefix(self.root).removeprefix(
            self.image_root).lower().strip('/').split('/')

    def split_of(self, path: str) -> str:
        """Return the split that a path names, its last part first, or ''."""
        for part in reversed(self.below(path)):
            words = re.split('[^a-z]+', part)
            found = {_SPLITS[word] for word in words if word in _SPLITS}
            if len(found) == 1:
                return found.pop()
        return ''

    def locate(self, name: str, source: str) -> str:
        """Find an image whose name may have a server's path; '' if missing."""
        plain = name.split('?d=')[-1].replace('\\', '/').removeprefix('./')
        parts, near = self.below(plain), self.below(source)
        found = next((self._by_name[key] for key in (
            *names_of(plain), *names_of(unquote(plain)))
            if key in self._by_name), [])

        def fit(path: str) -> tuple:
            own = self.below(path)
            return (len(osp.commonprefix([own[::-1], parts[::-1]])),
                    self.split_of(path) == self.split_of(source),
                    len(osp.commonprefix([own, near])), 'images' in own)

        ranked = sorted(found, key=fit)
        if len(ranked) > 1 and fit(ranked[-1]) == fit(ranked[-2]):
            raise UserError(f"'{name}' in '{source}' may be '{ranked[-2]}' or "
                            f"'{ranked[-1]}': give its folder with --images")
        best = ranked[-1] if ranked else ''
        if not best.endswith(name.removeprefix('./')):
            self.account.put_right('image names that differ from the files',
                                   f'{name} is {best}', len(ranked) > 0)
        return best


def names_of(path: str) -> list[str]:
    """Return a file's name, without a hash, and without the extension."""
    name = osp.basename(path).lower()
    short = _HASH.sub('', name)
    return [*dict.fromkeys([name, short, osp.splitext(short)[0]])]


def _scan(root: str, extensions: Sequence[str]) -> list[str]:
    return [osp.join(root, name) for name in scan_folder(root, extensions)[0]]


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Name the file, and perhaps the line, in errors."""
    try:
        yield
    except (ParseError, YAMLError, MsgspecError, AttributeError, TypeError,
            ValueError) as error:
        problem = ' '.join(str(error).split())
        raise UserError(f"'{path}': {problem}: correct it") from error
