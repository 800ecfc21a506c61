# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The files and the content of an export, and an account of both."""
import os.path as osp
import re
from collections import defaultdict
from urllib.parse import unquote

import msgspec

from ..datasets.images import scan_folder
from ..errors import UserError

_SPLITS = dict(train='train', training='train', val='val', valid='val',
               validation='val', test='test', testing='test')
# Label Studio puts eight hexadecimal digits in front of uploaded files.
_HASH = re.compile(r'^[0-9a-f]{8}-')


class Box(msgspec.Struct, gc=False):
    """An object: its class and (x, y, width, height) in pixels from 0."""
    label: str
    bbox: list[float]
    mask: list | dict | None = None
    crowd: bool = False

    @classmethod
    def around(cls, label: str, points: list[float], **more) -> 'Box':
        """Create the box around points (x1, y1, x2, y2, ...)."""
        x, y = min(points[::2]), min(points[1::2])
        return cls(label, [x, y, max(points[::2]) - x, max(points[1::2]) - y],
                   **more)


class Picture(msgspec.Struct):
    """An image, as the file ``source`` of an export describes it."""
    name: str
    source: str
    boxes: list[Box]
    split: str = ''  # or 'train', 'val', 'test'
    size: tuple[int, int] | None = None  # width and height
    fractions: bool = False  # whether coordinates are relative to the size
    file: str = ''  # path, once it is found


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

    def total(self, kind: str) -> int:
        """Number of events of a kind."""
        return sum(number for (each, _), (number, _) in self.items()
                   if each == kind)


class Files:
    """The files of an export, apart from the results in ``out``."""

    def __init__(self, folder: str, out: str, images: str | None,
                 account: Account) -> None:
        for path in filter(None, (folder, images)):
            if not osp.exists(path):
                raise UserError(f"'{path}' does not exist")
        self.account, self._out = account, osp.realpath(out)
        self.only = '' if osp.isdir(folder) else osp.abspath(folder)
        self.root = osp.abspath(osp.dirname(folder) if self.only else folder)
        self.image_root = osp.abspath(images or self.root)
        if osp.commonpath([self._out, osp.realpath(self.root)]) == self._out:
            raise UserError(f"--out '{out}' contains the export '{folder}': "
                            'choose another folder')
        self.images = self._scan(self.image_root)
        self._by_name = defaultdict(list)
        for path in self.images:
            name = osp.basename(path).lower()
            short = _HASH.sub('', name)
            for key in {name, short, osp.splitext(short)[0]}:
                self._by_name[key].append(path)

    def find(self, *extensions: str) -> list[str]:
        """List the files with these extensions, or the one to read."""
        if self.only and extensions != ('.txt', ):
            return [self.only] * self.only.lower().endswith(extensions)
        return self._scan(self.root, extensions)

    def split_of(self, path: str) -> str:
        """Return the split that a path names within the export, or ''."""
        return split_of(path.removeprefix(self.root).removeprefix(
            self.image_root))

    def _scan(self, root: str, *extensions) -> list[str]:
        paths = [osp.join(root, name)
                 for name in scan_folder(root, *extensions)[0]]
        return [path for path in paths
                if not osp.realpath(path).startswith(self._out + osp.sep)]

    def read(self, path: str) -> str:
        """Read a text file."""
        with open(path, 'rb') as file:
            content = file.read()
        if content.startswith(b'\xef\xbb\xbf'):
            self.account.put_right('files with a byte order mark', path)
        try:
            return content.decode('utf-8-sig')
        except UnicodeDecodeError as error:
            raise UserError(f"'{path}' is not UTF-8: {error}") from error

    def locate(self, name: str, source: str) -> str:
        """Find an image whose name may have a server's path; '' if missing."""
        plain = unquote(name.split('?d=')[-1]).replace('\\', '/')
        parts = [part for part in plain.lower().split('/')
                 if part not in ('', '.')]
        short = _HASH.sub('', parts[-1]) if parts else ''
        found = next((self._by_name[key] for key in (
            *parts[-1:], short, osp.splitext(short)[0])
            if key in self._by_name), [])
        near = osp.relpath(osp.dirname(source), self.root).split('/')

        def fit(path: str) -> tuple:
            own = osp.relpath(path, self.image_root).lower().split('/')
            same = osp.commonprefix([own[::-1], parts[::-1]])
            return (len(same), self.split_of(path) == self.split_of(source),
                    len(osp.commonprefix([own, near])),
                    'image' in '/'.join(own[:-1]))

        ranked = sorted(found, key=fit)
        if len(ranked) > 1 and fit(ranked[-1]) == fit(ranked[-2]):
            raise UserError(f"'{name}' in '{source}' may be '{ranked[-2]}' or "
                            f"'{ranked[-1]}': give its folder with --images")
        if ranked and not ranked[-1].endswith(name.removeprefix('./')):
            self.account.put_right('image names that differ from the files',
                                   f'{name} is {ranked[-1]}')
        return ranked[-1] if ranked else ''


def split_of(path: str) -> str:
    """Return the split that a path names, its last part first, or ''."""
    for part in reversed(path.lower().split('/')):
        words = re.split('[^a-z]+', part)
        found = {_SPLITS[word] for word in words if word in _SPLITS}
        if len(found) == 1:
            return found.pop()
    return ''


def number(value: object, where: str, account: Account | None = None
           ) -> float:
    """Convert a number, perhaps written as text, which is counted."""
    try:
        if abs(float(value)) < 1e9:
            if account is not None and isinstance(value, str):
                account.put_right('numbers written as text', where)
            return float(value)
    except (TypeError, ValueError):
        pass
    raise UserError(f'{where} has {value!r} instead of a number: correct it')
