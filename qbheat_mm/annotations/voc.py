# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read Pascal VOC's XML files, also roLabelImg's and CVAT's rotated boxes.

``<filename>`` decides which image is meant, perhaps in ``<folder>``.
roLabelImg's ``<robndbox>`` has an angle in radians, CVAT an attribute
``rotation`` in degrees.

PASCAL's own files and Roboflow's supervision count pixels from 1, both
corners included; their ``<source><database>`` states it. labelImg, CVAT and
datumaro, Label Studio and other tools count from 0.
"""
import math
import os.path as osp
import re
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from ..datasets.images import EXTENSIONS
from .account import IN_TWO_SPLITS, ROTATED, Account
from .files import ExportFiles, reading, split_named
from .records import SPLITS, Box, ListedExport, ListedImage

_FROM_ONE = re.compile(r'(The )?VOC ?20\d\d\b.*|roboflow\.ai')


def find_voc(files: ExportFiles) -> list[str]:
    """Return the XML files of Pascal VOC, not those of other tools."""
    paths = []
    for path in files.find('.xml'):
        if re.search(b'<annotation[ >]', Path(path).read_bytes()):
            paths.append(path)
    return paths


def read_voc(paths: Iterable[str], files: ExportFiles) -> ListedExport:
    """Read an export; lists of images give the split, or folders."""
    images, from_one, stems, hashed = [], [], set(), False
    for path in paths:
        with reading(path):
            root = ElementTree.parse(path).getroot()
            image = _read_image(root, path, files)
        images.append(image)
        stems.update(_stems(image))
        hashed |= _text(root, 'owner/name') == 'Label Studio'
        if _FROM_ONE.fullmatch(_text(root, 'source/database')):
            from_one.append(image)
    _count_from_zero(from_one, files.account)
    splits = _read_lists(files, stems)
    kept = []
    for image in images:
        names = [name for name in _stems(image) if name in (splits or ())]
        if names:
            image.split = splits[names[0]] or image.split
        if names or splits is None:
            kept.append(image)
        else:
            files.account.skip(image, 'in no list of the export')
    return ListedExport('Pascal VOC', kept, hashed_names=hashed,
                        upright=hashed, own_names=True)


def _read_image(root: ElementTree.Element, path: str,
                files: ExportFiles) -> ListedImage:
    name = _text(root, 'filename') or osp.splitext(osp.basename(path))[0]
    size = []
    for key in ('size/width', 'size/height'):
        size.append(round(float(_text(root, key) or 0)))
    image = ListedImage(name, path, [], split=files.split_of_image(path),
                        listed_size=tuple(size) if all(size) else None,
                        folder=_text(root, 'folder'))
    for entry in root.iterfind('object'):
        image.boxes.append(_read_object(entry, path, files.account))
    return image


def _count_from_zero(images: Sequence[ListedImage], account: Account) -> None:
    """Move boxes whose corners count pixels from 1, both included.

    If one is at 0, another tool copied the name of the database.
    """
    boxes = []
    for image in images:
        boxes += [box for box in image.boxes if not box.mask]
    if boxes and min(min(box.bbox[:2]) for box in boxes) >= 1:
        for box in boxes:
            x, y, w, h = box.bbox
            box.bbox = [x - 1, y - 1, w + 1, h + 1]
        account.correct('corners counted from 1', images[0].source,
                        len(boxes))


def _text(element: ElementTree.Element, key: str) -> str:
    return (element.findtext(key) or '').strip()


def _read_object(entry: ElementTree.Element, path: str,
                 account: Account) -> Box:
    box = Box(label=_text(entry, 'name'))
    if _text(entry, 'difficult') == '1':
        account.correct("'difficult' objects that became crowds, which "
                        'training ignores', path)
        box.crowd = True
    if entry.find('robndbox') is not None:
        numbers = _numbers(entry, 'robndbox', ('cx', 'cy', 'w', 'h', 'angle'))
        account.correct(ROTATED, path)
        return box.surround_rotated(numbers[:2], numbers[2:4],
                                    math.degrees(numbers[4]))
    corners = _numbers(entry, 'bndbox', ('xmin', 'ymin', 'xmax', 'ymax'))
    box.swapped = corners[0] > corners[2] or corners[1] > corners[3]
    box.surround(corners)
    rotation = _rotation(entry)
    if rotation:
        account.correct(ROTATED, path)
        box.rotate(rotation)
    return box


def _numbers(entry: ElementTree.Element, kind: str,
             keys: Iterable[str]) -> list[float]:
    numbers = []
    for key in keys:
        text = _text(entry, f'{kind}/{key}')
        if not text:
            raise ValueError(f'an object of class {_text(entry, "name")!r} '
                             f'has no <{key}> in <{kind}>')
        numbers.append(float(text))
    return numbers


def _rotation(entry: ElementTree.Element) -> float:
    """The angle in degrees that CVAT gives as an attribute."""
    for attribute in entry.iterfind('attributes/attribute'):
        if _text(attribute, 'name') == 'rotation':
            return float(_text(attribute, 'value') or 0)
    return 0.


def _read_lists(files: ExportFiles, stems: Container[str]
                ) -> dict[str, str] | None:
    """Return the splits of lists by name; None without lists.

    The lists of one class, which have -1, 0 or 1 after each name, are
    skipped.
    """
    splits = None
    for path in files.find_texts():
        split = split_named(osp.basename(path))
        if not _is_list(path, split, files, stems):
            continue
        splits = {} if splits is None else splits
        for line in files.lines(path):
            if line not in stems and re.search(r'\s(-1|0|1)$', line):
                continue
            name = _listed_name(line, stems)
            other = splits.get(name)
            if split and other and split != other:
                files.account.correct(IN_TWO_SPLITS, line)
                splits[name] = min(split, other, key=SPLITS.index)
            else:
                splits[name] = split or other or ''
    return splits


def _is_list(path: str, split: str, files: ExportFiles,
             stems: Container[str]) -> bool:
    """Whether a text is in ImageSets/Main, or names a split and an image."""
    if 'ImageSets' in files.below(path):
        return bool(re.search(r'/ImageSets(/Main)?/[^/]+$', path))
    if split:
        for line in files.lines(path):
            if _listed_name(line, stems) in stems:
                return True
    return False


def _listed_name(line: str, stems: Container[str]) -> str:
    """The longest end of a line that names an image, without its extension.

    Lines of PaddlePaddle end with the path of the annotation.
    """
    name = line if line in stems else _stem(line)
    while name not in stems and '/' in name:
        name = name.partition('/')[2]
    return name


def _stem(name: str) -> str:
    """A name without the extension of an image or its annotation."""
    name = name.replace('\\', '/')
    stem, extension = osp.splitext(name)
    return stem if extension.lower() in (*EXTENSIONS, '.xml') else name


def _stems(image: ListedImage) -> list[str]:
    """The names that lists may give an image, with its folders first."""
    own = osp.splitext(image.source)[0]
    named = _stem(image.name)
    return [own.rpartition('/Annotations/')[2], named, osp.basename(own),
            osp.basename(named)]
