# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The files of an export, and the splits that folders and lists name."""
import json
import os.path as osp
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree.ElementTree import ParseError

from msgspec import MsgspecError
from yaml import YAMLError

from ..datasets.folders import scan_folder
from ..errors import UserError, one_line, printable
from .account import Account, Kind

_SPLITS = dict(train='train', training='train', val='val', valid='val',
               validation='val', test='test', testing='test')


class ExportFiles:
    """The files of an export, and its images, perhaps in another folder.

    Args:
        folder (str): The export, or the only file of it to read.
        images (str, optional): Folder of the images. Only these are used
            then, even if the export has others.
        account (Account): Counts what is corrected.

    Raises:
        UserError: If a path does not exist, or an image's is not UTF-8, which
            neither annotations nor configs can hold.
    """

    def __init__(self, folder: str, images: str | None,
                 account: Account) -> None:
        for path in (folder, images):
            if path and not osp.exists(path):
                raise UserError(f"'{path}' does not exist")
        self.account = account
        self.only = '' if osp.isdir(folder) else osp.abspath(folder)
        self.root = osp.abspath(osp.dirname(folder) if self.only else folder)
        self.image_root = osp.abspath(images or self.root)
        self.other_images = images is not None
        scan = scan_folder(self.image_root)
        self.images = [osp.join(self.image_root, name) for name in scan.files]
        self.unread = scan.others
        for path in self.images:
            _require_utf8(path)
        for name, number in scan.skipped.items():
            account.note(Kind.SKIPPED_FILE, f"in folders '{name}', which are "
                         'hidden or of thumbnails', self.image_root, number)

    def find(self, *endings: str) -> list[str]:
        """List the files with these endings, or the one to read."""
        if not self.only:
            return _scan(self.root, endings)
        return [self.only] if self.only.lower().endswith(endings) else []

    def find_texts(self) -> list[str]:
        """List text files, which may lie beside the images."""
        texts = _scan(self.root, ('.txt', ))
        if self.image_root != self.root:
            texts += _scan(self.image_root, ('.txt', ))
        return sorted(set(texts))

    def read(self, path: str) -> str:
        """Read a text file in UTF-8, -16 or -32."""
        content = Path(path).read_bytes()
        encoding = json.detect_encoding(content)
        try:
            return content.decode(encoding)
        except UnicodeDecodeError as error:
            raise UserError(f"'{path}' is not UTF-8 ({error}): save it as "
                            'UTF-8') from error

    def lines(self, path: str) -> list[str]:
        """Read the lines of a text file that are not blank."""
        return list(self.numbered_lines(path).values())

    def numbered_lines(self, path: str) -> dict[int, str]:
        """Read the lines that are not blank, by their index."""
        lines = {}
        for i, line in enumerate(self.read(path).split('\n')):
            if line.strip():
                lines[i] = line.strip()
        return lines

    def below(self, path: str) -> list[str]:
        """Split a path into parts, relative to the export or its images."""
        for root in (self.root, self.image_root):
            if is_below(path, root):
                return osp.relpath(path, root).split('/')
        return path.strip('/').split('/')

    def split_of_image(self, path: str) -> str:
        """Return the split that the folders of a file name, or ''.

        The innermost folder decides; the file's own name never does.
        """
        for part in reversed(self.below(path)[:-1]):
            split = split_named(part)
            if split:
                return split
        return ''

    def split_of_list(self, path: str) -> str:
        """Return the split that a list of images names, or its folders."""
        return split_named(osp.basename(path)) or self.split_of_image(path)


def is_below(path: str, folder: str) -> bool:
    """Whether a path is within a folder; both are absolute."""
    return path.startswith(folder.rstrip('/') + '/')


def composed(text: str) -> str:
    """Compose letters and their accents, which macOS stores apart."""
    return unicodedata.normalize('NFC', text)


def normalized(text: str) -> str:
    """Compose letters, and fold case."""
    return composed(text).casefold()


def split_named(text: str) -> str:
    """Return the only split that a name has among its words, or ''."""
    splits = set()
    for word in re.split('[^a-z]+', text.lower()):
        splits.add(_SPLITS.get(word, ''))
    splits.discard('')
    return splits.pop() if len(splits) == 1 else ''


def _scan(root: str, endings: Sequence[str]) -> list[str]:
    return [osp.join(root, name) for name in scan_folder(root, endings).files]


def _require_utf8(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"the name of '{printable(path)}' is not UTF-8: rename it "
            "('convmv -f gbk -t utf-8 -r --notest FOLDER' does for Chinese "
            "Windows), or unpack the archive with 'unzip -O gbk'") from None


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Name the file, and perhaps the line, in errors."""
    try:
        yield
    except (ParseError, YAMLError, MsgspecError, AttributeError, KeyError,
            TypeError, ValueError) as error:
        raise UserError(f"'{path}': {one_line(error)}: correct it") from error


def require_distinct(names: Mapping[int | str, str]) -> None:
    """Raise ValueError if two ids have one class name."""
    ids = {}
    for key, name in names.items():
        other = ids.setdefault(name, key)
        if other != key:
            raise ValueError(f'the ids {other} and {key} are both class '
                             f'{name!r}')
