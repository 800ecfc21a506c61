# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read YOLO's label files, also of oriented boxes, segments and poses.

A label file belongs to the image of the same name, without extension, in the
same folder or in ``images`` instead of ``labels``. Lists and folders in the
YAML file give the splits, else the folders of the images. Label Studio's
``notes.json`` has the ids of the classes, which ``classes.txt`` lists in the
order of that file; only its label files may have a hash in front of the name.
"""
import os.path as osp
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import yaml

from ..errors import UserError
from .account import ROTATED
from .files import ExportFiles, is_below, reading, split_named
from .lookup import ImageLookup, strip_hash
from .records import Box, Export, ListedImage

_FOLDERS = ('images', 'jpegimages', 'labels')
#: Polygons may reach beyond their image, in fractions of its sides.
_MOST = 1.5
_LINE = re.compile(r'\d+(\s+[\d.e+-]+){4,}')


class _Notes(msgspec.Struct):
    """Label Studio's notes.json."""

    class Category(msgspec.Struct):
        id: int
        name: str

    categories: list[Category]


class Classes(NamedTuple):
    """The names of classes by id, and other settings of their file."""
    names: dict[int, str]
    settings: dict
    by_label_studio: bool = False


def find_yolo(files: ExportFiles) -> dict[str, Classes]:
    """Return the content of the files that list YOLO's classes, by path."""
    found = {}
    for path in files.find('.yaml', '.yml'):
        text = files.read(path)
        if re.search(r'^names\s*:', text, re.M):
            with reading(path):
                # Names such as 'no' and '007' are text.
                settings = yaml.load(text, yaml.BaseLoader)
                found[path] = Classes(_numbered(settings['names']), settings)
    for path in () if found else files.find('classes.txt', 'obj.names'):
        classes = _read_list(path, files)
        # labelImg writes the same list into every folder.
        if classes not in found.values():
            found[path] = classes
    return found


def _numbered(names: list | dict) -> dict[int, str]:
    pairs = enumerate(names) if isinstance(names, list) else names.items()
    return {int(key): str(name).strip() for key, name in pairs}


def _read_list(path: str, files: ExportFiles) -> Classes:
    """Read a list of classes, and CVAT's or Label Studio's file beside it."""
    by_line, settings = files.numbered_lines(path), {}
    data = osp.join(osp.dirname(path), 'obj.data')
    if osp.exists(data):
        settings = dict(re.findall(r'^(\w+)\s*=\s*(\S+)', files.read(data),
                                   re.M))
    notes = osp.join(osp.dirname(path), 'notes.json')
    if not osp.exists(notes):
        return Classes(by_line, settings)
    with reading(notes):
        content = msgspec.json.decode(files.read(notes), type=_Notes)
    by_id = {}
    for category in content.categories:
        by_id[category.id] = category.name.strip()
    names = list(by_line.values())
    in_order = [category.name.strip() for category in content.categories]
    if names not in (in_order, [by_id[key] for key in sorted(by_id)]):
        raise UserError(f"'{path}' lists the classes {names}, but '{notes}' "
                        f'{in_order}: delete the wrong one')
    return Classes(by_id, settings, by_label_studio=True)


def read_yolo(contents: Mapping[str, Classes], lookup: ImageLookup) -> Export:
    """Read an export."""
    (path, classes), = contents.items()
    labels = _LabelFiles(lookup.files, classes.by_label_studio)
    images = _listed_images(path, classes.settings, lookup)
    images = images or _labeled_folders(path, labels, lookup.files)
    poses = 'kpt_shape' in classes.settings
    for image in images:
        labels.reserve(image.file or _beside(image))
    for image in images:
        image.listed_size = (1, 1)
        text = labels.of(image.file or _beside(image))
        if text:
            image.boxes = list(_read_boxes(text, classes.names, poses,
                                           lookup.files))
        else:
            lookup.files.account.note('images without a label file',
                                      'have no objects', image.name)
    labels.count_unused()
    by_cvat = osp.basename(path) == 'obj.names'
    return Export(f'YOLO with {osp.basename(path)}', images,
                  list(classes.names.values()),
                  upright=by_cvat or classes.by_label_studio)


class _LabelFiles:
    """The label files of an export, by the images that they belong to."""

    def __init__(self, files: ExportFiles, hashed_names: bool) -> None:
        self.files = files
        self._found = {}
        self._reserved = set()
        self._by_key = {}
        self._texts = files.find_texts()
        for text in self._texts:
            key = self._key(text)
            if key not in self._by_key or '/labels/' in text:
                self._by_key[key] = text
        # Names may differ in case, or by a hash, if no image has the name.
        self._similar = defaultdict(list)
        owned = set()
        for image in files.images:
            owned.add(self._key(image))
        for key, text in self._by_key.items():
            if key not in owned:
                folder, stem = osp.split(key.casefold())
                short = strip_hash(stem) if hashed_names else stem
                for name in {stem, short}:
                    self._similar[osp.join(folder, name)].append(text)

    def reserve(self, image: str) -> None:
        """Keep the file of exactly this name from images named alike."""
        key = self._key(image)
        while key and key not in self._by_key:
            key = key.partition('/')[2]
        self._reserved.add(self._by_key.get(key, ''))

    def of(self, image: str) -> str:
        """The label file of an image, or ''."""
        if image not in self._found:
            self._found[image] = self._find(image)
        return self._found[image]

    def _find(self, image: str) -> str:
        key = self._key(image)
        text = self._by_key.get(key, '')
        similar = [other for other in self._similar[key.casefold()]
                   if other not in self._reserved]
        exact = [other for other in similar
                 if other.endswith(f'{osp.basename(key)}.txt')]
        if not text and len(exact or similar) == 1:
            text, = exact or similar
            self.files.account.put_right(
                'image names that differ from the files',
                f'{text} is of {image}')
        return text

    def count_unused(self) -> None:
        """Count the boxes of the other label files."""
        for text in set(self._texts).difference(self._found.values()):
            lines = self.files.lines(text)
            if all(map(_LINE.fullmatch, lines)):
                self.files.account.note(
                    'boxes left out', 'of label files without an image',
                    text, len(lines))

    def _key(self, path: str) -> str:
        """Name an image and its label file alike."""
        kept = []
        *folders, name = self.files.below(path)
        for folder in folders:
            if folder.casefold() not in _FOLDERS:
                kept.append(folder)
        return '/'.join([*kept, osp.splitext(name)[0]])


def _labeled_folders(path: str, labels: _LabelFiles,
                     files: ExportFiles) -> list[ListedImage]:
    """List the images of folders with a label file; others hold drawings."""
    folders, images = set(), []
    for file in files.images:
        if labels.of(file):
            folders.add(osp.dirname(file))
    for file in files.images:
        if osp.dirname(file) in folders:
            images.append(ListedImage(
                file, path, split=files.split_of_image(file), file=file))
    return images


def _beside(image: ListedImage) -> str:
    """The path of a missing image, as written in its list."""
    return osp.normpath(osp.join(osp.dirname(image.source), image.name))


def _listed_images(path: str, settings: Mapping, lookup: ImageLookup
                   ) -> list[ListedImage]:
    """List the images of the folders and lists that settings name."""
    images = []
    for key in ('train', 'val', 'valid', 'test'):
        values = settings.get(key) or []
        for value in values if isinstance(values, list) else [values]:
            value = str(value).replace('\\', '/')
            place, names = _find_place(path, settings, value, lookup.files)
            if not names:
                lookup.files.account.put_right(
                    'splits that do not exist here', f'{key}: {value}')
            for name in names:
                images.append(ListedImage(name, place,
                                          split=split_named(key)))
    lookup.find(images)
    return images


def _find_place(path: str, settings: Mapping, value: str, files: ExportFiles
                ) -> tuple[str, list[str]]:
    """The first place that holds images of the export, and their names.

    The place may be relative to elsewhere: tails of its path are tried.
    """
    folder = osp.dirname(path)
    places = [osp.join(folder, str(settings.get('path') or ''), value)]
    parts = osp.normpath(value).split('/')
    for i in range(len(parts)):
        for root in (folder, files.image_root):
            places.append(osp.join(root, *parts[i:]))
    for place in places:
        place = osp.normpath(place)
        if osp.isfile(place):
            return place, files.lines(place)
        names = []
        for image in files.images:
            if is_below(image, place):
                names.append(image)
        if names:
            return osp.join(place, ''), names
    return '', []


def _read_boxes(path: str, names: Mapping[int, str], poses: bool,
                files: ExportFiles) -> Iterator[Box]:
    """Read the lines CLASS X Y W H, or CLASS X1 Y1 X2 Y2 X3 Y3 ..."""
    for line in files.lines(path):
        with reading(f'{path}: {line[:80]}'):
            index, *points = map(float, line.split())
            label = names.get(index, f'class {index:g}')
            if len(points) == 4 or poses and len(points) > 4:
                x, y, w, h = points[:4]
                yield Box(label=label, bbox=[x - w / 2, y - h / 2, w, h])
                continue
            if len(points) < 6 or len(points) % 2:
                raise ValueError('a box needs 4 numbers and a polygon an even '
                                 'number from 6 on, after that of the class')
            if max(points) > _MOST:
                raise ValueError(f'{max(points):g} is no fraction of a side; '
                                 'poses need kpt_shape in the YAML file')
            if _is_rotated_box(points):
                files.account.put_right(ROTATED, path)
            yield Box(label=label, mask=[points]).surround(points)


def _is_rotated_box(points: Sequence[float]) -> bool:
    """Whether four corners are those of a rotated rectangle."""
    if len(points) != 8:
        return False
    x1, y1, x2, y2, x3, y3, x4, y4 = points
    skew = max(abs(x1 + x3 - x2 - x4), abs(y1 + y3 - y2 - y4))
    tilt = min(abs(x2 - x1), abs(y2 - y1))
    return skew < 1e-3 < tilt
