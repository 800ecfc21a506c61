# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read exports of YOLO, Pascal VOC and labelme."""
import math
import os.path as osp
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import msgspec
import yaml

from ..errors import UserError
from .export import Account, Box, Files, Picture, number, split_of


def find_yolo(files: Files) -> dict[str, dict]:
    """Return the content of the files that list YOLO's classes, by path."""
    found = {}
    for path in files.find('.yaml', '.yml'):
        try:
            content = yaml.safe_load(files.read(path))
        except yaml.YAMLError as error:
            raise UserError(f"'{path}' is not YAML: {error.problem}"
                            ) from error
        if isinstance(content, dict) and content.get('names'):
            found[path] = content
    for path in [] if found else files.find('classes.txt', 'obj.names'):
        found[path] = dict(names=files.read(path).split('\n'))
    return found


def read_yolo(path: str, content: dict, files: Files
              ) -> tuple[str, list[Picture], list[str]]:
    """Read an export; return the format, the images, and the classes."""
    names = content['names']
    names = dict(enumerate(names) if isinstance(names, list) else names)
    names = {int(key): str(name).strip() for key, name in names.items()
             if str(name).strip()}
    if content.get('nc', len(names)) != len(names):
        raise UserError(f"'{path}' has nc: {content['nc']}, but "
                        f'{len(names)} names')
    labels = defaultdict(list)
    for text in files.find('.txt'):
        labels[osp.splitext(osp.basename(text))[0]].append(text)
    pictures = []
    for split, images in _yolo_splits(path, content, files).items():
        for image in images:
            text = _label_file(image, labels, files)
            boxes = [] if text is None else [*_yolo_boxes(
                text, names, 'kpt_shape' in content, files)]
            if text is None:
                files.account.note('images without a label file',
                                   'have no objects', image)
            pictures.append(Picture(image, text or path, boxes, split,
                                    fractions=True))
    used = {picture.source for picture in pictures}
    for text in {*sum(labels.values(), [])} - used:
        if 'labels' in text.removeprefix(files.root).split('/'):
            files.account.note(
                'boxes left out', 'of label files without an image', text,
                len([*_yolo_boxes(text, names, True, files)]))
    return f'YOLO with {osp.basename(path)}', pictures, [*names.values()]


def _yolo_splits(path: str, content: dict,
                 files: Files) -> dict[str, list[str]]:
    """Return the images of each split."""
    found = {}
    for key in ('train', 'val', 'valid', 'test'):
        values = content.get(key) or []
        values = values if isinstance(values, list) else [values]
        images = [image for value in values
                  for image in _yolo_images(str(value), path, content, files)]
        if images:
            found[split_of(key)] = [*dict.fromkeys(images)]
        elif values:
            files.account.put_right('splits that do not exist here',
                                    f'{key}: {values[0]}')
    if found.get('val') == found.get('train', 0):
        files.account.put_right('validation images that are the training '
                                'images', '', len(found.pop('val')))
    return found or {'': files.images}


def _yolo_images(value: str, path: str, content: dict,
                 files: Files) -> list[str]:
    """List the images of a folder or list, wherever it lies here."""
    folder = osp.dirname(path)
    parts = osp.normpath(value.replace('\\', '/')).split('/')
    places = [osp.join(folder, str(content.get('path') or ''), value), *(
        osp.join(root, *parts[i:]) for i in range(len(parts))
        for root in (folder, files.image_root))]
    place = next((osp.normpath(each) for each in places if osp.exists(each)),
                 None)
    if place is None:
        return []
    if osp.isdir(place):
        return [image for image in files.images
                if image.startswith(place + '/')]
    lines = [line.strip() for line in files.read(place).split('\n')]
    images = {line: files.locate(line, place) for line in lines if line}
    for line, image in images.items():
        if not image:
            files.account.note('images left out', 'whose file is missing',
                               line)
    return [image for image in images.values() if image]


def _label_file(image: str, labels: dict[str, list[str]],
                files: Files) -> str | None:
    """Find the label file of an image, whose path is the most alike."""
    def fit(text: str) -> tuple[bool, bool, int]:
        own, other = (osp.dirname(each).replace('/labels', '/images')
                      for each in (text, image))
        shared = osp.commonprefix([own.split('/'), other.split('/')])
        return (own == other, files.split_of(own) == files.split_of(other),
                len(shared))

    found = sorted(labels[osp.splitext(osp.basename(image))[0]], key=fit)
    # Another split may have an image of the same name.
    if not found or files.split_of(osp.dirname(found[-1])) not in (
            files.split_of(osp.dirname(image)), ''):
        return None
    if len(found) > 1 and fit(found[-1]) == fit(found[-2]):
        raise UserError(f"image '{image}' has the label files '{found[-1]}' "
                        f"and '{found[-2]}': remove one")
    return found[-1]


def _yolo_boxes(path: str, names: dict[int, str], poses: bool,
                files: Files) -> Iterator[Box]:
    """Read the lines CLASS X Y W H, or CLASS X1 Y1 X2 Y2 X3 Y3 ..."""
    for i, line in enumerate(files.read(path).split('\n'), 1):
        where = f"'{path}', line {i}"
        values = [number(word, where) for word in line.split()]
        if not values:
            continue
        index, *points = values
        label = names.get(int(index), f'class {index:g}')
        if max(points, default=0) > 1.5 and not poses:
            raise UserError(f'{where} has {max(points):g}, but YOLO needs '
                            'fractions of width and height')
        if len(points) == 4 or poses and len(points) > 4:
            x, y, w, h = points[:4]
            yield Box(label, [x - w / 2, y - h / 2, w, h])
        elif len(points) > 5 and len(points) % 2 == 0:
            yield Box.around(label, points, mask=[points])
        else:
            raise UserError(f'{where} has {len(values)} numbers, but a box '
                            'needs 5 and a polygon an odd number from 7 on')


def read_voc(paths: list[str], files: Files
             ) -> tuple[str, list[Picture], list[str]]:
    """Read an export; see :func:`read_yolo`."""
    pictures, splits = [], _image_sets(files)
    for path in paths:
        try:
            root = ElementTree.fromstring(files.read(path))
        except ElementTree.ParseError as error:
            raise UserError(f"'{path}' is not XML: {error}") from error
        if root.tag != 'annotation':
            raise UserError(f"'{path}' is not Pascal VOC, but <{root.tag}>: "
                            'from CVAT, export COCO 1.0')
        stem = osp.splitext(osp.basename(path))[0]
        name = (root.findtext('filename') or '').replace('\\', '/')
        size = _size(root.findtext('size/width'),
                     root.findtext('size/height'), path)
        # The file's own name is more reliable than the one it contains.
        picture = Picture(stem + osp.splitext(name)[1], path, [
            *_voc_boxes(root, path, files.account)], size=size)
        picture.split = splits.get(stem, 'none') if splits else (
            files.split_of(path))
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


def _voc_boxes(root: ElementTree.Element, path: str,
               account: Account) -> Iterator[Box]:
    for each in root.iterfind('object'):
        box = each.find('bndbox')
        if box is None:
            account.note('boxes left out', 'without bndbox', path)
            continue
        corners = [number(box.findtext(side), f"'{path}'")
                   for side in ('xmin', 'ymin', 'xmax', 'ymax')]
        crowd = (each.findtext('difficult') or '').strip() == '1'
        if crowd:
            account.put_right("'difficult' objects that became crowds, which "
                              'training ignores', path)
        yield Box.around((each.findtext('name') or '').strip(), corners,
                         crowd=crowd)


def _image_sets(files: Files) -> dict[str, str]:
    """Return the splits of ImageSets/Main by the images' names."""
    splits = {}
    for path in files.find('train.txt', 'val.txt', 'test.txt', 'default.txt'):
        if 'ImageSets' in path and '_' not in osp.basename(path):
            for line in filter(str.strip, files.read(path).split('\n')):
                name = line.split()[0]
                splits[name] = split_of(osp.basename(path)) or splits.get(
                    name, '')
    return splits


def _size(width: Any, height: Any, path: str) -> tuple[int, int] | None:
    size = tuple(round(number(side or 0, f"'{path}'"))
                 for side in (width, height))
    return size if all(size) else None


class LabelmeContent(msgspec.Struct):
    """A labelme file, without the image that it may contain."""
    shapes: list[dict[str, Any]]
    imagePath: str
    imageWidth: Any = None
    imageHeight: Any = None


def read_labelme(contents: dict[str, LabelmeContent], files: Files
                 ) -> tuple[str, list[Picture], list[str]]:
    """Read an export of labelme; see :func:`read_yolo`."""
    pictures = [
        Picture(osp.splitext(osp.basename(path))[0] + osp.splitext(
            content.imagePath)[1], path, [
                *_shapes(content.shapes, path, files.account)],
                files.split_of(path),
                _size(content.imageWidth, content.imageHeight, path))
        for path, content in contents.items()]
    return 'labelme', pictures, sorted({
        box.label for picture in pictures for box in picture.boxes})


def _shapes(shapes: list[dict], path: str, account: Account) -> Iterator[Box]:
    for shape in shapes:
        kind = shape.get('shape_type') or 'polygon'
        label = str(shape.get('label')).strip()
        points = [number(x, f"'{path}'", account)
                  for point in shape.get('points') or () for x in point]
        if kind in ('rectangle', 'mask') and len(points) > 3:
            yield Box.around(label, points)
        elif kind == 'circle' and len(points) == 4:
            x, y, *edge = points
            radius = math.dist((x, y), edge)
            angles = [i * math.pi / 18 for i in range(36)]
            points = [value for angle in angles for value in (
                x + radius * math.cos(angle), y + radius * math.sin(angle))]
            yield Box.around(label, points, mask=[points])
        elif kind in ('polygon', 'rotation') and len(points) > 5:
            yield Box.around(label, points, mask=[points])
        else:
            account.note('boxes left out', f'that are {kind} shapes of '
                         f'{len(points) // 2} points', path)
