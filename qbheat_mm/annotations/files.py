# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Find the files of an export, and images by the names it gives them."""
import os.path as osp
import re
from collections import defaultdict
from urllib.parse import unquote

from ..datasets.find import scan_folder
from ..errors import UserError
from .export import Account, split_of

# Label Studio puts eight hexadecimal digits in front of uploaded files.
_HASH = re.compile(r'^[0-9a-f]{8}-')


class Files:
    """The files of an export.

    Args:
        folder (str): The export, or one of its files.
        out (str): Folder of results, which is not part of the export.
        images (str, optional): Folder of the images, if it is another one.
        account (Account): Receives which names were put right.
    """

    def __init__(self, folder: str, out: str, images: str | None,
                 account: Account) -> None:
        for path in filter(None, (folder, images)):
            if not osp.exists(path):
                raise UserError(f"'{path}' does not exist")
        self.account, self.out = account, osp.realpath(out)
        self.only = '' if osp.isdir(folder) else osp.abspath(folder)
        self.root = osp.abspath(osp.dirname(folder) if self.only else folder)
        self.image_root = osp.abspath(images) if images else self.root
        if osp.commonpath([self.out, osp.realpath(self.root)]) == self.out:
            raise UserError(f"--out '{out}' contains the export '{folder}': "
                            'choose another folder')
        self._by_name, self._by_stem = defaultdict(list), defaultdict(list)
        self.images = self._scan(self.image_root)
        for path in self.images:
            name = osp.basename(path).lower()
            for each in {name, _HASH.sub('', name)}:
                self._by_name[each].append(path)
                self._by_stem[osp.splitext(each)[0]].append(path)

    def find(self, *extensions: str) -> list[str]:
        """List the export's files with these extensions."""
        if self.only and extensions != ('.txt', ):
            return [self.only] if self.only.lower().endswith(
                extensions) else []
        return self._scan(self.root, extensions)

    def _scan(self, root: str, *extensions) -> list[str]:
        paths = (osp.join(root, name)
                 for name in scan_folder(root, *extensions)[0])
        return [path for path in paths if osp.commonpath(
            [self.out, osp.realpath(path)]) != self.out]

    def locate(self, name: str, near: str) -> str:
        """Find an image.

        Args:
            name (str): As in the export, perhaps with a server's path.
            near (str): The file that names it.

        Returns:
            str: Path of the file, '' if there is none.

        Raises:
            UserError: If several files fit equally well.
        """
        plain = unquote(name.split('?d=')[-1]).replace('\\', '/')
        parts = [part for part in plain.split('/') if part not in ('', '.')]
        base = parts[-1].lower() if parts else ''
        found = (self._by_name.get(base)
                 or self._by_name.get(_HASH.sub('', base))
                 or self._by_stem.get(osp.splitext(base)[0]))
        if not found:
            return ''
        ranks = {path: self._rank(path, parts, near) for path in found}
        best = max(ranks.values())
        first, *others = (path for path in found if ranks[path] == best)
        if others:
            raise UserError(
                f"'{near}' names the image '{name}', which may be '{first}' "
                f"or '{others[0]}': give the right folder with --images")
        self._explain(name, parts, first, best[0])
        return first

    def _rank(self, path: str, parts: list[str],
              near: str) -> tuple[int, int, int]:
        """How well a file fits: by its path, its split, its distance."""
        own = osp.relpath(path, self.image_root).split('/')
        same = 0
        while same < min(len(own), len(parts)) and (
                own[-1 - same].lower() == parts[-1 - same].lower()):
            same += 1
        folder = osp.relpath(osp.dirname(near), self.root).split('/')
        split = split_of(osp.relpath(near, self.root))
        return (same, split_of(osp.relpath(path, self.image_root)) == split,
                len(osp.commonprefix([own, folder])))

    def _explain(self, name: str, parts: list[str], path: str,
                 same: int) -> None:
        """Count in which ways a name differs from its file."""
        real = osp.basename(path)
        rules = (
            ('\\' in name, "'\\' in file names"),
            (0 < same < len(parts), 'file names with a path that does not '
             'exist here'),
            (same == 0 and osp.splitext(real)[0].lower() != osp.splitext(
                parts[-1])[0].lower(), "file names with Label Studio's hash"),
            (osp.splitext(real)[1].lower() != osp.splitext(
                parts[-1])[1].lower(), 'file names with another extension'),
            (real != parts[-1] and real.lower() == parts[-1].lower(),
             'file names in upper or lower case'))
        for holds, what in rules:
            if holds:
                self.account.put_right(what, name)


def read_text(path: str, account: Account) -> str:
    """Read a file that may start with a byte order mark.

    Raises:
        UserError: If it is not text.
    """
    with open(path, 'rb') as file:
        content = file.read()
    utf16 = content[:2] in (b'\xff\xfe', b'\xfe\xff')
    try:
        text = content.decode('utf-16' if utf16 else 'utf-8')
    except UnicodeDecodeError as error:
        raise UserError(f"'{path}' is not UTF-8: {error}") from error
    if utf16 or text.startswith('\ufeff'):
        account.put_right('files with a byte order mark', path)
    return text.removeprefix('\ufeff')
