# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read exports of YOLO, Pascal VOC and labelme.

The readers of supervision, labelformat and globox lose some: polygons among
YOLO's boxes, images without a label file, or the flag of difficult objects.
"""
import math
import os.path as osp
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import yaml

from .export import Account, Box, Files, Picture, names_of, reading

_YOLO_LINE = re.compile(r'\d+(\s+[\d.e+-]+){4,}')


def find_yolo(files: Files) -> dict[str, dict]:
    """Return the content of the files that list YOLO's classes, by path."""
    found = {}
    for path in files.find('.yaml', '.yml'):
        text = files.read(path)
        if re.search(r'^names\s*:', text, re.M):
            with reading(path):
                found[path] = yaml.safe_load(text)
    for path in [] if found else files.find('classes.txt', 'obj.names'):
        data = osp.join(osp.dirname(path), 'obj.data')
        values = files.read(data) if osp.exists(data) else ''
        found[path] = dict(re.findall(r'^(\w+)\s*=\s*(\S+)', values, re.M),
                           names=files.lines(path))
    return found


def read_yolo(contents: dict[str, dict], files: Files
              ) -> tuple[str, list[Picture], list[str]]:
    """Read an export; return the format, the images, and the classes."""
    (path, content), = contents.items()
    with reading(path):
        names = content['names']
        names = {int(key): str(name).strip() for key, name in (
            enumerate(names) if isinstance(names, list) else names.items())}
    texts = files.find('.txt')
    labels = {_key(text, files, -1): text for text in texts}
    labels |= {_key(text, files): text for text in texts}
    splits = _yolo_splits(path, content, files)
    if not splits:  # folders without any label file hold masks or drawings
        folders = {osp.dirname(image) for image in files.images
                   if _key(image, files) in labels}
        splits = {image: files.split_of(image) for image in files.images
                  if osp.dirname(image) in folders}
    pictures = []
    for image, split in splits.items():
        text = labels.get(_key(image, files), '')
        files.account.note('images without a label file', 'have no objects',
                           image, not text)
        pictures.append(Picture(image, text or path, [*_yolo_boxes(
            text, names, 'kpt_shape' in content, files)], split, (1, 1)))
    for text in {*texts} - {picture.source for picture in pictures}:
        lines = files.lines(text)
        if all(map(_YOLO_LINE.fullmatch, lines)):
            files.account.note('boxes left out', 'of label files without an '
                               'image', text, len(lines))
    return f'YOLO with {osp.basename(path)}', pictures, [*names.values()]


def _key(path: str, files: Files, name: int = 0) -> tuple[str, ...]:
    """Name an image and its label file alike."""
    *folders, last = files.below(path)
    return (*(each for each in folders if each not in ('images', 'labels')),
            osp.splitext(names_of(last)[name])[0])


def _yolo_splits(path: str, content: dict, files: Files) -> dict[str, str]:
    """Return the split of each image that a folder or a list names."""
    splits, folder = {}, osp.dirname(path)
    for key in ('test', 'val', 'valid', 'train'):
        values = content.get(key) or []
        for value in values if isinstance(values, list) else [values]:
            value = str(value).replace('\\', '/')
            parts = osp.normpath(value).split('/')
            places = [osp.join(folder, str(content.get('path') or ''), value),
                      *(osp.join(root, *parts[i:]) for i in range(len(parts))
                        for root in (folder, files.image_root))]
            place = osp.normpath(next(filter(osp.exists, places), ''))
            images = [image for image in files.images
                      if image.startswith(place + '/')]
            if osp.isfile(place):
                images = [files.locate(line, place) or line
                          for line in files.lines(place)]
            files.account.put_right('splits that do not exist here',
                                    f'{key}: {value}', not images)
            files.account.put_right(
                'images of two splits, which are used for training', place,
                len(splits.keys() & images) if key == 'train' else 0)
            splits.update(dict.fromkeys(images, files.split_of(key)))
    return splits


def _yolo_boxes(path: str, names: dict[int, str], poses: bool,
                files: Files) -> Iterator[Box]:
    """Read the lines CLASS X Y W H, or CLASS X1 Y1 X2 Y2 X3 Y3 ..."""
    for line in files.lines(path) if path else ():
        with reading(f'{path}: {line[:80]}'):
            index, *points = map(float, line.split())
            label = names.get(index, f'class {index:g}')
            if len(points) == 4 or poses and len(points) > 4:
                x, y, w, h = points[:4]
                yield Box(label=label, bbox=[x - w / 2, y - h / 2, w, h])
            elif len(points) > 5 and len(points) % 2 == 0:
                yield Box(label=label, mask=[points]).surround(points)
            else:
                raise ValueError('a box needs 4 numbers and a polygon an even '
                                 'number from 6 on, after that of the class')


def find_voc(files: Files) -> list[str]:
    """Return the XML files of Pascal VOC, not those of other tools."""
    return [path for path in files.find('.xml')
            if re.search(b'<annotation[ >]', Path(path).read_bytes())]


def read_voc(paths: Iterable[str], files: Files
             ) -> tuple[str, list[Picture], None]:
    """Read an export, whose classes are those of its objects."""
    pictures, splits = [], _image_sets(files)
    for path in paths:
        with reading(path):
            root = ElementTree.parse(path).getroot()
            size = map(root.findtext, ('size/width', 'size/height'))
            picture = _picture(path, root.findtext('filename'), size, files)
            picture.boxes += _voc_boxes(root, path, files.account)
        stem = names_of(path)[-1]
        if stem in splits or not splits:
            picture.split = splits.get(stem, picture.split)
            pictures.append(picture)
        else:
            files.account.leave_out(picture, 'in no list of the export')
    return 'Pascal VOC', pictures, None


def _picture(path: str, name: str | None, size: Iterable,
             files: Files) -> Picture:
    """Describe the image of a file, whose own name is the more reliable."""
    name = osp.splitext(path)[0] + osp.splitext(name or '')[1]
    size = tuple(round(float(side or 0)) for side in size)
    return Picture(osp.basename(name), path, [], files.split_of(path),
                   size if all(size) else None)


def _voc_boxes(root: ElementTree.Element, path: str,
               account: Account) -> Iterator[Box]:
    for each in root.iterfind('object'):
        corners = [float(each.findtext(f'bndbox/{side}'))
                   for side in ('xmin', 'ymin', 'xmax', 'ymax')]
        crowd = (each.findtext('difficult') or '').strip() == '1'
        account.put_right("'difficult' objects that became crowds, which "
                          'training ignores', path, crowd)
        label = (each.findtext('name') or '').strip()
        yield Box(label=label, crowd=crowd).surround(corners)


def _image_sets(files: Files) -> dict[str, str]:
    """Return the splits of ImageSets/Main by the images' names."""
    splits = {}
    for path in files.find('.txt'):
        # Lists of one class have an underscore.
        if re.search(r'/ImageSets(/Main)?/[^/_]+$', path):
            split = files.split_of(osp.basename(path))
            for name in map(str.lower, files.lines(path)):
                splits[name] = split or splits.get(name, '')
    return splits


class _Shape(msgspec.Struct):
    label: str | int
    points: list[list[float]] = []
    shape_type: str | None = 'polygon'


class LabelmeContent(msgspec.Struct):
    """A labelme file, without the image that it may contain."""
    shapes: list[_Shape]
    imagePath: str
    imageWidth: float | None = None
    imageHeight: float | None = None


def read_labelme(contents: dict[str, LabelmeContent], files: Files
                 ) -> tuple[str, list[Picture], None]:
    """Read an export, whose classes are those of its objects."""
    pictures = []
    for path, content in contents.items():
        picture = _picture(path, content.imagePath, (
            content.imageWidth, content.imageHeight), files)
        picture.boxes += _shapes(content.shapes, path, files.account)
        pictures.append(picture)
    return 'labelme', pictures, None


def _shapes(shapes: Sequence[_Shape], path: str,
            account: Account) -> Iterator[Box]:
    for shape in shapes:
        box, points = Box(label=str(shape.label).strip()), shape.points
        kind = shape.shape_type or 'polygon'
        if kind == 'circle' and len(points) == 2:
            (x, y), edge = points
            r = math.dist((x, y), edge)
            yield box.surround([x - r, y - r, x + r, y + r])
        elif kind in ('rectangle', 'mask', 'polygon', 'rotation') and points:
            box.mask = [sum(points, [])] if len(points) > 2 else None
            yield box.surround(sum(points, []))
        else:
            account.note('boxes left out', f'that are {kind} shapes of '
                         f'{len(points)} points', path)
