# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which file an entry of an export means: the one rule for all formats.

1. The path as written, relative to the file that lists it, to the folder of
   images beside that file's (``JPEGImages`` and ``images`` for
   ``Annotations``, ``images`` for ``labels``), to the export, to ``--images``.
2. Else, in the same places, a name that differs in upper and lower case, in
   the extension, in percent escapes, or, in Label Studio's forms only, by the
   hash in front if no file has the listed name.
3. Else the longest tail of the path that a file's path ends with, if it is
   the only one. It must be below what exists of the folder that the path
   names, but that folder must not exist without it; it must not be of another
   split; and if most images of that folder are together, it must be there.
4. Else the image is missing.

A file is of the entry with the strongest claim, in this order: by 1 from the
file that lists it, by 1 from elsewhere, by 2, by all of the name, by longer
and shorter tails. Of equal ones, that with the exact name has the file; else
all of them are missing. With ``--images``, all files are in that folder.
"""
import os.path as osp
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from ..datasets.images import EXTENSIONS
from .files import ExportFiles, is_below, normalized
from .records import ListedImage

# Label Studio puts eight hexadecimal digits in front of files.
_HASH = re.compile('^[0-9a-f]{8}(-|__)')
_IMAGE_FOLDERS = {'annotations': ('JPEGImages', 'images'),
                  'labels': ('images', )}
#: If more than this share of a folder's images is in one place, all must be.
_TOGETHER = 0.75


class _Tail(NamedTuple):
    """A file, and how much of a listed path its own path ends with.

    The strength is whether that is all of the name as listed, and how many
    folders.
    """
    file: str
    strength: tuple[bool, int]


class _Key(NamedTuple):
    """A listed path, and the split of the list: both may be in two."""
    path: str
    split: str


class ImageLookup:
    """Finds the files of listed images; see the module's rule.

    Args:
        files (ExportFiles): The export.
    """

    def __init__(self, files: ExportFiles) -> None:
        self.files = files
        self._hashed_names = False
        self._claimed = set()
        self._files = set(files.images)
        self._names = set()
        self._folders = set()
        self._by_path = defaultdict(list)  # without extension, lower case
        self._by_stem = defaultdict(list)
        for file in files.images:
            stem, _ = osp.splitext(normalized(file))
            self._by_path[stem].append(file)
            self._by_stem[osp.basename(stem)].append(file)
            self._names.add(osp.basename(file))
            folder = osp.dirname(file)
            while folder not in self._folders and is_below(
                    folder, files.image_root):
                self._folders.add(folder)
                folder = osp.dirname(folder)

    def find(self, images: Sequence[ListedImage],
             hashed_names: bool = False) -> None:
        """Set ``file`` of images that have none, and what split it is in.

        Args:
            images (Sequence[ListedImage]): Changed in place.
            hashed_names (bool): Whether names may begin with a hash of Label
                Studio's that the files do not have.
        """
        self._hashed_names = hashed_names
        images = [image for image in images if not image.file]
        pending = self._name(images, self._near)
        pending = self._name(pending, self._far)
        proposals = {}
        for image in pending:
            files = self._in_place(image)
            if len(files) == 1:
                proposals[self._key(image)] = files[0]
        pending = self._accept(pending, proposals,
                               'image names that differ from the files')
        written = set()
        for image in images:
            if image.file:
                written.add(osp.dirname(_path(image)))
        self._find_by_tails(pending, written)
        for image in images:
            if image.file and not image.split:
                image.split = self.files.split_of_image(image.file)

    def candidates(self, name: str, source: str) -> list[str]:
        """List the files that a name may mean, if it is an image's."""
        image = ListedImage(name, source)
        written = self._as_written(image, self._places)
        if written:
            return [written]
        return [*self._in_place(image)] or [
            tail.file for tail in self._longest_tails(image)]

    def _name(self, images: Sequence[ListedImage],
              places: Callable[[str, str], list[str]]) -> list[ListedImage]:
        """Take files at the places as written; return the other images."""
        pending, named = [], set()
        for image in images:
            file = self._as_written(image, places)
            if file and file not in self._claimed:
                image.file = file
                named.add(file)
            else:
                pending.append(image)
        self._claimed |= named
        return pending

    def _accept(self, images: Sequence[ListedImage],
                proposals: Mapping[_Key, str], what: str
                ) -> list[ListedImage]:
        """Take files that no other path claims as well; return the rest."""
        claims = defaultdict(set)
        for key, file in proposals.items():
            claims[file].add(key.path)
        pending, accepted = [], set()
        for image in images:
            key = self._key(image)
            file = proposals.get(key, '')
            if file not in self._claimed and (
                    _winners(file, claims[file]) == {key.path}):
                image.file = file
                accepted.add(file)
                self.files.account.correct(what, f'{image.name} is {file}')
            else:
                pending.append(image)
        self._claimed |= accepted
        return pending

    def _key(self, image: ListedImage) -> _Key:
        return _Key(_path(image), self.files.split_of_list(image.source))

    def _near(self, name: str, source: str) -> list[str]:
        """What a name means from the file that lists it."""
        folder = osp.dirname(source)
        bases = [folder]
        parts = folder.split('/')
        for i, part in enumerate(parts):
            for sibling in _IMAGE_FOLDERS.get(part.casefold(), ()):
                bases.append('/'.join([*parts[:i], sibling, *parts[i + 1:]]))
        return [osp.normpath(osp.join(base, name)) for base in bases]

    def _far(self, name: str, source: str) -> list[str]:
        """What a name means from the export, or from the images."""
        return [osp.normpath(osp.join(base, name))
                for base in (self.files.root, self.files.image_root)]

    def _places(self, name: str, source: str) -> list[str]:
        """The paths that a name may mean, the nearest first."""
        return self._near(name, source) + self._far(name, source)

    def _as_written(self, image: ListedImage,
                    places: Callable[[str, str], list[str]]) -> str:
        plain = _plain(image.name)
        for name in (image.name, plain, osp.join(image.folder, plain)):
            for path in places(name, image.source):
                if path in self._files or self._is_elsewhere(path):
                    return path
        return ''

    def _is_elsewhere(self, path: str) -> bool:
        """Whether a path is an image outside of the export."""
        return (not self.files.other_images
                and not is_below(path, self.files.root)
                and path.lower().endswith(EXTENSIONS) and osp.isfile(path))

    def _spellings(self, image: ListedImage) -> list[str]:
        """The ways to write a name, as it is first."""
        plain = _plain(image.name)
        names = {osp.basename(plain), osp.basename(unquote(plain))}
        has_hash = self._hashed_names and not self._names & names
        spellings = {}
        for spelling in (plain, unquote(plain)):
            folder, name = osp.split(spelling)
            spellings[spelling] = None
            if has_hash and strip_hash(name):
                spellings[osp.join(folder, strip_hash(name))] = None
        return list(spellings)

    def _in_place(self, image: ListedImage) -> list[str]:
        """Files with a similar name in the folder that the name gives."""
        for name in self._spellings(image):
            for path in self._places(name, image.source):
                files = _similar(self._by_path, path)
                if files:
                    return files
        return []

    def _longest_tails(self, image: ListedImage) -> list[_Tail]:
        """Unclaimed files that end with the longest tail of a path."""
        split = (self.files.split_of_list(image.source)
                 or self.files.split_of_image(_path(image)))
        for name in self._spellings(image):
            path = _path(image, name)
            in_folder = osp.join(image.folder, name)
            tails = defaultdict(list)
            whole = name.strip('/').count('/')
            for file in _similar(self._by_stem, osp.basename(path)):
                own = self.files.split_of_image(file)
                if file not in self._claimed and (
                        not split or not own or split == own):
                    length = max(_common_folders(path, file),
                                 _common_folders(in_folder, file))
                    strength = length >= whole, length
                    tails[strength].append(_Tail(file, strength))
            if tails:
                return tails[max(tails)]
        return []

    def _find_by_tails(self, images: Sequence[ListedImage],
                       written: set[str]) -> None:
        """Find files by tails of listed paths, the longest first.

        Images whose folder is ``written`` are not elsewhere.
        """
        pending = []
        for image in images:
            if osp.dirname(_path(image)) not in written:
                pending.append(image)
        done = set()
        while True:
            folders = self._strongest_tails(pending, done)
            if not folders:
                break
            proposals = {}
            for tails in folders.values():
                proposals |= _keep_together(tails)
            pending = self._accept(pending, proposals,
                                   'images found by a tail of their path')
            done |= folders.keys()

    def _strongest_tails(self, images: Iterable[ListedImage],
                         done: Container[_Key]
                         ) -> dict[_Key, dict[_Key, str]]:
        """Map listed folders, and images within, to files by tails.

        Only the folders with the longest tail of all are returned, and those
        that are ``done`` are passed over.
        """
        by_strength = defaultdict(lambda: defaultdict(dict))
        for image in images:
            key = self._key(image)
            folder = _Key(osp.dirname(key.path), key.split)
            tails = self._longest_tails(image)
            if (len(tails) == 1 and folder not in done
                    and self._may_be(image, tails[0].file)):
                by_strength[tails[0].strength][folder][key] = tails[0].file
        return by_strength[max(by_strength)] if by_strength else {}

    def _may_be(self, image: ListedImage, file: str) -> bool:
        """Whether a file is below what exists of the folder that is named."""
        named = osp.join(image.folder, osp.dirname(_plain(image.name)))
        above = self._existing(named, image.source)
        return above not in self._places(named, image.source) and (
            not above or is_below(file, above))

    def _existing(self, folder: str, source: str) -> str:
        """The longest part of a named folder that exists, or ''."""
        parts = folder.split('/') if folder else []
        for i in range(len(parts), 0, -1):
            for path in self._places('/'.join(parts[:i]) or '/', source):
                if path in self._folders:
                    return path
        return ''


def _winners(file: str, paths: set[str]) -> set[str]:
    """Of listed paths that claim a file, those with its exact name."""
    own = osp.basename(file)
    exact = set()
    for path in paths:
        name = osp.basename(path)
        if own in (name, strip_hash(name)):
            exact.add(path)
    return exact or paths


def strip_hash(name: str) -> str:
    """Remove the hash that Label Studio puts in front of a file's name."""
    return _HASH.sub('', name)


def _plain(name: str) -> str:
    """Convert Windows paths and URLs of Label Studio's local files."""
    if '?d=' in name:
        name = unquote(name.split('?d=')[-1])
    return name.replace('\\', '/')


def _path(image: ListedImage, name: str = '') -> str:
    """The path of an image, relative to the file that lists it."""
    return osp.normpath(osp.join(osp.dirname(image.source),
                                 name or _plain(image.name)))


def _similar(index: Mapping[str, Sequence[str]], path: str) -> Sequence[str]:
    """Files of this name, else in other case, else with an extension."""
    name, folded = osp.basename(path), normalized(path)
    stem, extension = osp.splitext(folded)
    files = index.get(stem, ()) if extension in EXTENSIONS else ()
    exact, folded_alike = [], []
    for file in files:
        if osp.basename(file) == name:
            exact.append(file)
        if osp.splitext(normalized(file))[1] == extension:
            folded_alike.append(file)
    # A name without extension may have a dot.
    return exact or folded_alike or index.get(folded, ()) or files


def _common_folders(path: str, file: str) -> int:
    """The number of folders that two paths have in common at their end."""
    length = 0
    for one, other in zip(reversed(normalized(path).split('/')[:-1]),
                          reversed(normalized(file).split('/')[:-1])):
        if one != other:
            break
        length += 1
    return length


def _keep_together(found: Mapping[_Key, str]) -> dict[_Key, str]:
    """Keep the files of one listed folder that are where most of them are."""
    places = Counter(osp.dirname(file) for file in found.values())
    place, number = places.most_common(1)[0]
    kept = {}
    for key, file in found.items():
        if osp.dirname(file) == place or (
                number <= _TOGETHER * places.total()):
            kept[key] = file
    return kept
