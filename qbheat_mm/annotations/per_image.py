# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read Pascal VOC and labelme, which have a file for each image."""
import math
import os.path as osp
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec

from ..errors import UserError
from .export import Account, Box, Export, Picture, corners, number, split_of
from .files import Files, read_text


class LabelmeContent(msgspec.Struct):
    """A labelme file, without the image that it may contain."""
    shapes: list[dict[str, Any]]
    imagePath: str = ''
    imageWidth: Any = None
    imageHeight: Any = None


def read_labelme(contents: dict[str, LabelmeContent], files: Files,
                 account: Account) -> Export:
    """Read an export of labelme: polygons, rectangles and circles."""
    pictures, classes = [], {}
    for path, content in contents.items():
        boxes = []
        for shape in content.shapes:
            box = _shape(shape, path, account)
            if box is not None:
                boxes.append(box)
        classes.update(dict.fromkeys(sorted(b.label for b in boxes)))
        pictures.append(_picture(path, content.imagePath, boxes, (
            content.imageWidth, content.imageHeight), files, account))
    _note_unlabeled(pictures, files, account)
    return Export('labelme', pictures, sorted(classes))


def _shape(shape: dict, path: str, account: Account) -> Box | None:
    kind, label = shape.get('shape_type') or 'polygon', str(
        shape.get('label')).strip()
    points = [[number(x, f"'{path}'", account) for x in point]
              for point in shape.get('points') or []]
    if kind in ('rectangle', 'mask') and len(points) > 1:
        xs, ys = zip(*points)
        return Box(label, corners(min(xs), min(ys), max(xs), max(ys)))
    if kind == 'circle' and len(points) == 2:
        (x, y), radius = points[0], math.dist(*points)
        return Box.around(label, [[
            value for i in range(36) for value in (
                x + radius * math.cos(i * math.pi / 18),
                y + radius * math.sin(i * math.pi / 18))]])
    if kind in ('polygon', 'rotation') and len(points) > 2:
        return Box.around(label, [[x for point in points for x in point]])
    account.note('boxes left out', f'{kind} shapes of {len(points)} points'
                 if kind == 'polygon' else f'{kind} shapes', path)
    return None


def read_voc(paths: list[str], files: Files, account: Account) -> Export:
    """Read an export in Pascal VOC's format.

    Its coordinates are pixels from 1 on. Tools that count from 0 or write
    fractions of pixels are recognized by their numbers.
    """
    pictures, classes, starts, whole = [], set(), [], True
    splits = _image_sets(files, account)
    for path in paths:
        root = _parse(path, account)
        boxes = []
        for each in root.iterfind('object'):
            box = _object(each, path, account)
            if box is None:
                continue
            boxes.append(box)
            starts += box.bbox[:2]
            whole &= all(x == int(x) for x in box.bbox)
        classes.update(box.label for box in boxes)
        picture = _picture(
            path, root.findtext('filename') or '', boxes,
            (root.findtext('size/width'), root.findtext('size/height')),
            files, account)
        if splits:
            picture.split = splits.get(Path(path).stem, 'left out')
        pictures.append(picture)
    if whole and min(starts, default=0) >= 1:
        for box in (box for picture in pictures for box in picture.boxes):
            x, y, w, h = box.bbox
            box.bbox = [x - 1, y - 1, w + 1, h + 1]
            account.put_right('boxes in pixels that start at 1', '')
    for picture in [each for each in pictures if each.split == 'left out']:
        account.note('images left out', 'in no list of ImageSets/Main',
                     picture.file)
        account.note('boxes left out', 'of images that are left out',
                     picture.file, len(picture.boxes))
        pictures.remove(picture)
    _note_unlabeled(pictures, files, account)
    return Export('Pascal VOC', pictures, sorted(classes))


def _parse(path: str, account: Account) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(read_text(path, account))
    except ElementTree.ParseError as error:
        raise UserError(f"'{path}' is not XML: {error}") from error


def is_voc(path: str, account: Account) -> bool:
    """Whether an XML file describes one image."""
    return _parse(path, account).tag == 'annotation'


def _object(each: ElementTree.Element, path: str,
            account: Account) -> Box | None:
    label = (each.findtext('name') or '').strip()
    found = [each.findtext(f'bndbox/{side}')
             for side in ('xmin', 'ymin', 'xmax', 'ymax')]
    if None in found:
        account.note('boxes left out', 'without bndbox', path)
        return None
    difficult = (each.findtext('difficult') or '0').strip() == '1'
    if difficult:
        account.put_right("'difficult' objects that became crowds, which "
                          'training ignores', path)
    return Box(label, corners(*(number(x, f"'{path}'") for x in found)),
               crowd=difficult)


def _image_sets(files: Files, account: Account) -> dict[str, str]:
    """Return the splits of ImageSets/Main, by the images' names."""
    splits = {}
    for path in files.find('.txt'):
        stem = Path(path).stem
        if 'ImageSets' in path and (stem == 'trainval' or split_of(
                osp.basename(path))) and '_' not in stem:
            for line in read_text(path, account).split('\n'):
                if line.strip():
                    name = line.split()[0]
                    split = split_of(osp.basename(path))
                    splits[name] = split or splits.get(name, '')
    return splits


def _picture(path: str, name: str, boxes: list[Box], size: tuple,
             files: Files, account: Account) -> Picture:
    """Find the image of a file: by the file's own name, or as it says."""
    own = Path(path).stem
    if osp.splitext(osp.basename(name.replace('\\', '/')))[0] != own:
        account.put_right('files named unlike the image in them', path)
    file = files.locate(own + osp.splitext(name)[1], path) or (
        name and files.locate(name, path))
    sides = [number(side or 0, f"'{path}'") for side in size]
    return Picture(file or name or own, boxes, split_of(
        path.removeprefix(files.root)), (round(sides[0]), round(sides[1]))
        if all(sides) else None, bool(file))


def _note_unlabeled(pictures: list[Picture], files: Files,
                    account: Account) -> None:
    """Count images without an annotation file: nobody looked at them."""
    for file in {*files.images} - {picture.file for picture in pictures}:
        account.note('images left out', 'without an annotation file', file)
