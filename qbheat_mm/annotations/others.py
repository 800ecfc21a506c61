# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read exports of YOLO, Pascal VOC and labelme.

The readers of supervision, labelformat and globox lose boxes: polygons among
YOLO's boxes, images without a label file, difficult objects.
"""
import math
import os.path as osp
import re
from collections.abc import Iterable, Iterator, Sequence
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
        found[path] = dict(names=files.lines(path))
    return found


def read_yolo(contents: dict[str, dict], files: Files
              ) -> tuple[str, list[Picture], list[str]]:
    """Read an export; return the format, the images, and the classes."""
    (path, content), = contents.items()
    names = content['names']
    with reading(path):
        names = {int(key): str(name).strip() for key, name in (
            enumerate(names) if isinstance(names, list) else names.items())}
    texts = files.find('.txt')
    labels = {**{_key(names_of(text)[-1], text, files): text
                 for text in texts},
              **{_key(text, text, files): text for text in texts}}
    pictures, used = [], set()
    # Folders without any label file hold masks or drawings.
    folders = {osp.dirname(image) for image in files.images
               if _key(image, image, files) in labels}
    for image, split in _yolo_images(path, content, files) or [
            (image, files.split_of(image)) for image in files.images
            if osp.dirname(image) in folders]:
        text = labels.get(_key(image, image, files), '')
        files.account.note('images without a label file', 'have no objects',
                           image, not text)
        used.add(text)
        pictures.append(Picture(image, text or path, [*_yolo_boxes(
            text, names, 'kpt_shape' in content, files)], split, (1, 1)))
    for text in {*texts} - used:
        lines = files.lines(text)
        if all(map(_YOLO_LINE.fullmatch, lines)):
            files.account.note('boxes left out', 'of label files without an '
                               'image', text, len(lines))
    return f'YOLO with {osp.basename(path)}', pictures, [*names.values()]


def _yolo_images(path: str, content: dict,
                 files: Files) -> list[tuple[str, str]]:
    """Return the images and their splits."""
    found = {}
    for key in ('train', 'val', 'valid', 'test'):
        values = content.get(key) or []
        for value in values if isinstance(values, list) else [values]:
            images = _yolo_listed(str(value), path, content, files)
            found.setdefault(files.split_of(key), {}).update(images)
            files.account.put_right('splits that do not exist here',
                                    f'{key}: {value}', not images)
    if found.get('val') == found.get('train', 0):
        files.account.put_right('validation images that are the training '
                                'images', '', len(found.pop('val')))
    return [(image, split) for split, images in found.items()
            for image in images]


def _yolo_listed(value: str, path: str, content: dict,
                 files: Files) -> dict[str, None]:
    """List the images of a folder or list, wherever it lies here."""
    folder = osp.dirname(path)
    parts = osp.normpath(value.replace('\\', '/')).split('/')
    places = [osp.join(folder, str(content.get('path') or ''), value), *(
        osp.join(root, *parts[i:]) for i in range(len(parts))
        for root in (folder, files.image_root))]
    place = osp.normpath(next(filter(osp.exists, places), ''))
    if osp.isfile(place):
        return dict.fromkeys(files.locate(line, place) or line
                             for line in files.lines(place))
    return dict.fromkeys(image for image in files.images
                         if image.startswith(place + '/'))


def _yolo_boxes(path: str, names: dict[int, str], poses: bool,
                files: Files) -> Iterator[Box]:
    """Read the lines CLASS X Y W H, or CLASS X1 Y1 X2 Y2 X3 Y3 ..."""
    for line in files.lines(path) if path else ():
        with reading(f'{path}: {line[:80]}'):
            index, *points = map(float, line.split())
            label = names.get(int(index), f'class {index:g}')
            if len(points) == 4 or poses and len(points) > 4:
                x, y, w, h = points[:4]
                yield Box(label=label, bbox=[x - w / 2, y - h / 2, w, h])
            elif len(points) > 5 and len(points) % 2 == 0:
                yield Box(label=label, mask=[points]).surround(points)
            else:
                raise ValueError('a box needs 4 numbers and a polygon an even '
                                 'number from 6 on, after that of the class')


def read_voc(paths: Iterable[str], files: Files
             ) -> tuple[str, list[Picture], list[str]]:
    """Read an export; see :func:`read_yolo`."""
    pictures, splits = [], _image_sets(files)
    for path in paths:
        with reading(path):
            root = ElementTree.parse(path).getroot()
            size = [root.findtext(f'size/{side}') or 0
                    for side in ('width', 'height')]
            picture = _picture(path, root.findtext('filename') or '', size,
                               files)
            picture.boxes += _voc_boxes(root, path, files.account)
        stem = names_of(path)[-1]
        if splits and stem not in splits:
            files.account.leave_out(picture, 'in no list of the export')
            continue
        picture.split = splits.get(stem, picture.split)
        pictures.append(picture)
    boxes = [box for picture in pictures for box in picture.boxes]
    # Pascal VOC counts pixels from 1, but some tools count from 0 or write
    # fractions of pixels.
    if all(min(box.bbox[:2]) >= 1 and all(x == int(x) for x in box.bbox)
           for box in boxes):
        for box in boxes:
            x, y, w, h = box.bbox
            box.bbox = [x - 1, y - 1, w + 1, h + 1]
        files.account.put_right('boxes in pixels that start at 1', '',
                                len(boxes))
    return 'Pascal VOC', pictures, sorted({box.label for box in boxes})


def _picture(path: str, name: str, size: Sequence, files: Files) -> Picture:
    """Describe the image of a file; its own name is the more reliable one."""
    stem = osp.splitext(osp.basename(path))[0]
    width, height = (round(float(side or 0)) for side in size)
    return Picture(stem + osp.splitext(name)[1], path, [],
                   files.split_of(path),
                   (width, height) if width * height else None)


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
            for name in map(str.lower, files.lines(path)):
                splits[name] = files.split_of(osp.basename(path)) or (
                    splits.get(name, ''))
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
                 ) -> tuple[str, list[Picture], list[str]]:
    """Read an export; see :func:`read_yolo`."""
    pictures, classes = [], set()
    for path, content in contents.items():
        picture = _picture(path, content.imagePath, (
            content.imageWidth, content.imageHeight), files)
        picture.boxes += _shapes(content.shapes, path, files.account)
        classes |= {box.label for box in picture.boxes}
        pictures.append(picture)
    return 'labelme', pictures, sorted(classes)


def _shapes(shapes: Sequence[_Shape], path: str,
            account: Account) -> Iterator[Box]:
    for shape in shapes:
        label, points = str(shape.label).strip(), sum(shape.points, [])
        kind, number = shape.shape_type or 'polygon', len(shape.points)
        if kind == 'circle' and number == 2:
            x, y, *edge = points
            radius = math.dist((x, y), edge)
            corners = [x - radius, y - radius, x + radius, y + radius]
            yield Box(label=label).surround(corners)
        elif kind in ('rectangle', 'mask', 'polygon', 'rotation'):
            outline = [points] if number > 2 else None
            yield Box(label=label, mask=outline).surround(points)
        else:
            account.note('boxes left out', f'that are {kind} shapes of '
                         f'{number} points', path)


def _key(path: str, place: str, files: Files) -> tuple[str, ...]:
    """Name an image and its label file alike."""
    folders = files.below(osp.dirname(place))
    return (*(name for name in folders if name not in ('', 'images', 'labels')),
            osp.splitext(osp.basename(path))[0].lower())
