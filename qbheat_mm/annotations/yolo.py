# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read exports in YOLO format: a text file of fractions for each image."""
import os.path as osp
from collections import defaultdict

import yaml

from ..errors import UserError
from .export import Account, Box, Export, Picture, number, split_of
from .files import Files, read_text


def find_yolo(files: Files) -> dict[str, dict]:
    """Return the content of the files that list YOLO's classes, by path."""
    found = {}
    for path in files.find('.yaml', '.yml'):
        try:
            content = yaml.safe_load(read_text(path, files.account))
        except yaml.YAMLError as error:
            raise UserError(f"'{path}' is not YAML: "
                            f'{" ".join(str(error).split())}') from error
        if isinstance(content, dict) and content.get('names'):
            found[path] = content
    for path in [] if found else files.find('classes.txt', 'obj.names'):
        lines = read_text(path, files.account).splitlines()
        found[path] = dict(names=[line for line in lines if line.strip()])
    return found


def read_yolo(path: str, content: dict, files: Files,
              account: Account) -> Export:
    """Read an export.

    Args:
        path (str): ``data.yaml``, ``classes.txt`` or ``obj.names``.
        content (dict): Its content.
        files (Files): The export's files.
        account (Account): Receives what was put right or left out.
    """
    names = content['names']
    if isinstance(names, dict):
        names = {int(key): str(name).strip() for key, name in names.items()}
    else:
        names = {i: str(name).strip() for i, name in enumerate(names)}
    if content.get('nc', len(names)) != len(names):
        raise UserError(f"'{path}' has nc: {content['nc']}, but "
                        f'{len(names)} names: correct one of them')
    labels = defaultdict(list)
    for text in files.find('.txt'):
        labels[osp.splitext(osp.basename(text))[0]].append(text)
    pictures, used = [], set()
    for split, images in _splits(path, content, files, account).items():
        for image in images:
            text = _label_file(image, labels)
            used.add(text)
            if text is None:
                account.note('images without a label file', 'have no object',
                             image)
            boxes = [] if text is None else _boxes(
                text, names, 'kpt_shape' in content, account)
            pictures.append(Picture(image, boxes, split, fractions=True))
    for each in files.find('.txt'):
        if each not in used and 'labels' in each.split('/')[:-1]:
            lines = read_text(each, account).split('\n')
            account.note('boxes left out', 'in label files without an image',
                         each, sum(len(line.split()) > 4 for line in lines))
    return Export(f'YOLO with {osp.basename(path)}', pictures,
                  list(names.values()))


def _splits(path: str, content: dict, files: Files,
            account: Account) -> dict[str, list[str]]:
    """Return the images of each split."""
    found = {}
    for key in ('train', 'val', 'valid', 'test'):
        values = content.get(key) or []
        values = values if isinstance(values, list) else [values]
        images = [image for value in values for image in _images_of(
            str(value), path, content, files, account)]
        if images:
            found[split_of(key)] = list(dict.fromkeys(images))
        elif values:
            account.put_right('splits named that do not exist',
                              f'{key}: {values[0]}')
    if 'val' in found and found['val'] == found.get('train'):
        account.put_right('validation images that are the training images',
                          '', len(found.pop('val')))
    if not found:
        found[''] = files.images
    return found


def _images_of(value: str, path: str, content: dict, files: Files,
               account: Account) -> list[str]:
    """List the images in a folder or a list, wherever it lies here."""
    folder = osp.dirname(path)
    parts = osp.normpath(value.replace('\\', '/')).split('/')
    root = osp.join(folder, str(content.get('path') or ''))
    tried = [osp.join(root, value), osp.join(folder, value), *(
        osp.join(base, *parts[i:]) for i in range(len(parts))
        for base in (folder, files.image_root))]
    place = next((osp.normpath(each) for each in tried
                  if osp.exists(each)), None)
    if place is None or osp.samefile(place, folder) and value not in '..':
        return []
    if place != osp.normpath(tried[0]):
        account.put_right('folders of data.yaml that lie elsewhere', value)
    if osp.isdir(place):
        return [image for image in files.images
                if image.startswith(place + '/')]
    images = []
    for line in read_text(place, account).split('\n'):
        image = line.strip() and files.locate(line.strip(), place)
        if image:
            images.append(image)
        elif line.strip():
            account.note('images left out', 'whose file is missing', line)
    return images


def _label_file(image: str, labels: dict[str, list[str]]) -> str | None:
    """Find the label file of an image: the one with the closest path."""
    def shared(text: str) -> tuple[int, int]:
        own = osp.dirname(text).replace('/labels', '/images').split('/')
        other = osp.dirname(image).split('/')
        return own == other, len(osp.commonprefix([own, other]))

    stem = osp.splitext(osp.basename(image))[0]
    found = sorted(labels.get(stem, ()), key=shared)
    if len(found) > 1 and shared(found[-1]) == shared(found[-2]):
        raise UserError(f"image '{image}' has two label files, '{found[-1]}' "
                        f"and '{found[-2]}': give only one folder of the "
                        'export')
    split = split_of(image)
    if not found or len(found) == 1 and split_of(found[0]) not in (
            split, ''):
        return None
    return found[-1]


def _boxes(path: str, names: dict[int, str], poses: bool,
           account: Account) -> list[Box]:
    """Read the lines CLASS X Y W H, or CLASS X1 Y1 X2 Y2 X3 Y3 ..."""
    boxes = []
    for i, line in enumerate(read_text(path, account).split('\n'), 1):
        where = f"'{path}', line {i}"
        values = [number(word, where) for word in line.split()]
        if not values:
            continue
        index, *points = values
        label = names.get(int(index), f'class {index:g}')
        if max(points, default=0) > 1.5:
            raise UserError(f'{where} has {max(points):g}, but YOLO needs '
                            'fractions of the width and height: export again')
        if poses or len(points) == 4:
            x, y, w, h = points[:4]
            boxes.append(Box(label, [x - w / 2, y - h / 2, w, h]))
        elif len(points) >= 6 and len(points) % 2 == 0:
            boxes.append(Box.around(label, [points]))
        else:
            raise UserError(f'{where} has {len(values)} numbers, but a box '
                            'needs 5 and a polygon an odd number from 7 on: '
                            'correct the line')
    return boxes
