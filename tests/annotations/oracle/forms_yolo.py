# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Writers of YOLO's label files: one text file an image."""
import json
from pathlib import Path

from .truth import Features, Photo, Truth

SPLITS = dict(train='train', val='valid', test='test')


def lines(photo: Photo, ids: dict, corners: bool = False) -> str:
    width, height = photo.stated_size
    rows = []
    for target in photo.targets:
        x, y, w, h = photo.state_box(target.box)
        values = [(x + w / 2) / width, (y + h / 2) / height, w / width,
                  h / height]
        if corners:
            points = photo.state(target.corners) / (width, height)
            values = points.flatten()
        numbers = ' '.join(f'{value:.9f}' for value in values)
        rows.append(f'{ids[target.label]} {numbers}\n')
    return ''.join(rows)


def write_labels(photo: Photo, path: Path, ids: dict, random,
                 corners: bool = False) -> None:
    """Write a label file; those of negatives are empty or do not exist."""
    text = lines(photo, ids, corners)
    if text or random.random() < 0.5:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def numbered(labels: list) -> dict:
    return {label: i for i, label in enumerate(labels)}


def data_yaml(labels: list, random, **paths) -> str:
    rows = [f'{key}: {json.dumps(value)}' for key, value in paths.items()]
    rows.append(f'nc: {len(labels)}')
    if random.random() < 0.5:
        rows.append(f'names: {json.dumps(labels, ensure_ascii=False)}')
    else:
        rows.append('names:')
        order = random.permutation(len(labels))
        rows += [f'  {i}: {json.dumps(labels[i])}' for i in order]
    return '\n'.join(rows) + '\n'


def write_split_folders(truth: Truth, root: Path, random,
                        corners: bool = False) -> None:
    """Roboflow: train/images and train/labels, with data.yaml."""
    ids = numbered(truth.labels)
    paths = {}
    for split in truth.splits:
        folder = root / SPLITS.get(split, 'train')
        for photo in truth.of_split(split):
            photo.write(folder / 'images' / photo.path)
            write_labels(photo, folder / 'labels' / f'{photo.stem}.txt', ids,
                         random, corners)
        start = '../' if random.random() < 0.5 else ''
        paths[split or 'train'] = f'{start}{folder.name}/images'
    (root / 'data.yaml').write_text(data_yaml(truth.labels, random, **paths))


def write_obb(truth: Truth, root: Path, random) -> None:
    write_split_folders(truth, root, random, corners=True)


def write_images_first(truth: Truth, root: Path, random) -> None:
    """Ultralytics: images/train and labels/train, with path."""
    ids = numbered(truth.labels)
    paths = {}
    for split in truth.splits:
        below = split or 'train'
        for photo in truth.of_split(split):
            photo.write(root / 'images' / below / photo.path)
            write_labels(photo, root / 'labels' / below / f'{photo.stem}.txt',
                         ids, random)
        paths[below] = f'images/{below}'
    (root / 'dataset.yaml').write_text(
        data_yaml(truth.labels, random, path='../datasets/pets', **paths))


def write_lists(truth: Truth, root: Path, random) -> None:
    """Ultralytics: lists of images, which may name lost ones."""
    ids = numbered(truth.labels)
    paths = {}
    for split in truth.splits:
        listed = []
        for photo in truth.of_split(split):
            photo.write(root / 'images' / photo.path)
            write_labels(photo, root / f'labels/{photo.stem}.txt', ids,
                         random)
            listed.append(f'./images/{photo.path}\n')
        name = split or 'train'
        (root / f'{name}.txt').write_text(''.join(listed))
        paths[name] = f'{name}.txt'
    (root / 'pets.yaml').write_text(data_yaml(truth.labels, random, **paths))


def write_classes_txt(truth: Truth, root: Path, random) -> None:
    """labelImg: classes.txt, label files beside or parallel to images."""
    ids = numbered(truth.labels)
    beside = random.random() < 0.5
    for photo in truth.photos:
        photo.write(root / ('' if beside else 'images') / photo.path)
        folder = root if beside else root / 'labels'
        write_labels(photo, folder / f'{photo.stem}.txt', ids, random)
    name = root / ('' if beside else 'labels') / 'classes.txt'
    name.parent.mkdir(exist_ok=True, parents=True)
    name.write_text('\r\n'.join(truth.labels) + '\r\n')


def write_darknet(truth: Truth, root: Path, random) -> None:
    """CVAT's YOLO 1.1: obj.data, obj.names and lists."""
    ids = numbered(truth.labels)
    rows = [f'classes = {len(ids)}']
    names = dict(train='train', val='valid', test='test')
    for split in truth.splits:
        name = names.get(split, 'train')
        folder = f'obj_{name}_data'
        listed = []
        for photo in truth.of_split(split):
            photo.write(root / folder / photo.path)
            write_labels(photo, root / folder / f'{photo.stem}.txt', ids,
                         random)
            listed.append(f'data/{folder}/{photo.path}\n')
        (root / f'{name}.txt').write_text(''.join(listed))
        rows.append(f'{name} = data/{name}.txt')
    rows += ['names = data/obj.names', 'backup = backup/']
    (root / 'obj.data').write_text('\n'.join(rows))
    (root / 'obj.names').write_text('\n'.join(truth.labels))


def write_label_studio(truth: Truth, root: Path, random) -> None:
    """Ids of notes.json, in another order than classes.txt."""
    numbers = random.permutation(len(truth.labels)).tolist()
    ids = dict(zip(truth.labels, numbers))
    for photo in truth.photos:
        code = random.bytes(4).hex()
        photo.write(root / f'images/{code}-{photo.name}')
        write_labels(photo, root / f'labels/{code}-{photo.stem}.txt', ids,
                     random)
    (root / 'classes.txt').write_text('\n'.join(truth.labels) + '\n')
    (root / 'notes.json').write_text(json.dumps(dict(
        categories=[dict(id=ids[label], name=label)
                    for label in truth.labels],
        info=dict(version='1.0', contributor='Label Studio'))))


_LISTED = Features(extensions=False, pixels='either')
_FOLDERS = Features(extensions=False, pixels='either', listed=False)
FORMS = dict(
    yolo_split_folders=(write_split_folders, _FOLDERS),
    yolo_obb=(write_obb, Features(
        extensions=False, rotated=True, pixels='either', listed=False)),
    yolo_images_first=(write_images_first, _FOLDERS),
    yolo_lists=(write_lists, _LISTED),
    yolo_classes_txt=(write_classes_txt, Features(
        extensions=False, splits=False, pixels='either', listed=False)),
    yolo_darknet=(write_darknet, _LISTED),
    yolo_label_studio=(write_label_studio, Features(
        extensions=False, splits=False, nested=False, listed=False)))
