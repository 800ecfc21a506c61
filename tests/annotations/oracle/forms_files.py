# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Writers of Pascal VOC and labelme: one XML or JSON file an image."""
import json
import math
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from .truth import Features, Photo, Target, Truth


def bndbox(photo: Photo, target: Target) -> str:
    x, y, w, h = photo.state_box(target.box)
    return (f'<bndbox><xmin>{x}</xmin><ymin>{y}</ymin><xmax>{x + w}</xmax>'
            f'<ymax>{y + h}</ymax></bndbox>')


def robndbox(photo: Photo, target: Target) -> str:
    """The box as roLabelImg writes it: its center and radians."""
    if not target.angle:
        return '<type>bndbox</type>' + bndbox(photo, target)
    x, y, w, h = target.parts[0]
    angle = math.radians(target.angle)
    return (f'<type>robndbox</type><robndbox><cx>{x + w / 2}</cx>'
            f'<cy>{y + h / 2}</cy><w>{w}</w><h>{h}</h>'
            f'<angle>{angle:.8f}</angle></robndbox>')


def xml(photo: Photo, filename: str, folder: str, path: str,
        shape=bndbox) -> str:
    objects = ''.join(
        f'<object><name>{escape(target.label)}</name>'
        f'<difficult>0</difficult>{shape(photo, target)}</object>'
        for target in photo.targets)
    width, height = photo.stated_size
    text = (
        f'<annotation><folder>{escape(folder)}</folder>'
        f'<filename>{escape(filename)}</filename>'
        f'<path>{escape(path)}</path><size><width>{width}</width>'
        f'<height>{height}</height><depth>3</depth></size>{objects}'
        '</annotation>')
    ElementTree.fromstring(text)
    return text


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, 'utf-8')


def write_voc(truth: Truth, root: Path, random, shape=bndbox) -> None:
    """VOC's own folders, with lists if there are splits."""
    for photo in truth.photos:
        photo.write(root / 'JPEGImages' / photo.path)
        write(root / f'Annotations/{photo.stem}.xml', xml(
            photo, photo.name, photo.folder, f'C:\\data\\{photo.name}',
            shape))
    lists = root / 'ImageSets/Main'
    for split in filter(None, truth.splits):
        photos = truth.of_split(split)
        write(lists / f'{split}.txt', '\n'.join(
            photo.stem for photo in photos) + '\n')
        label = truth.labels[0]
        lines = []
        for photo in photos:
            labels = [target.label for target in photo.targets]
            lines.append(f'{photo.stem} {1 if label in labels else -1:2d}')
        if '/' not in label:
            write(lists / f'{label}_{split}.txt', '\n'.join(lines))
    if {'train', 'val'} <= {*truth.splits}:
        both = truth.of_split('train') + truth.of_split('val')
        write(lists / 'trainval.txt', '\n'.join(
            photo.stem for photo in both))


def write_ro_label_img(truth: Truth, root: Path, random) -> None:
    write_voc(truth, root, random, robndbox)


def write_voc_flat(truth: Truth, root: Path, random) -> None:
    """XML files beside the images; files have been renamed."""
    for i, photo in enumerate(truth.photos):
        photo.write(root / photo.path)
        folder = root / photo.folder
        write(folder / f'annotation_{i}.xml', xml(
            photo, photo.name, folder.name, f'/home/me/{photo.name}'))


def write_voc_split_folders(truth: Truth, root: Path, random) -> None:
    """Roboflow: XML and images in train, valid and test."""
    names = dict(train='train', val='valid', test='test')
    for split in truth.splits:
        for photo in truth.of_split(split):
            folder = root / names.get(split, '')
            photo.write(folder / photo.name)
            write(folder / f'{photo.stem}.xml', xml(
                photo, photo.name, '', photo.name))


def shapes(photo: Photo, random) -> list:
    result = []
    for number, target in enumerate(photo.targets):
        group = number + 1 if len(target.parts) > 1 else None
        for x, y, w, h in target.parts:
            points = [[x, y], [x + w, y + h]]
            if random.random() < 0.3:
                points.reverse()
            kind = 'rectangle'
            if target.angle:
                points, kind = target.corners.tolist(), 'rotation'
            elif random.random() < 0.5:
                points = [[x, y], [x + w, y], [x + w, y + h], [x, y + h]]
                kind = 'polygon'
            result.append(dict(label=target.label, points=points,
                               group_id=group, shape_type=kind, flags={}))
    return result


def write_labelme(truth: Truth, root: Path, random) -> None:
    """JSON files beside the images, or in a folder of their own."""
    apart = random.random() < 0.5
    for i, photo in enumerate(truth.photos):
        folder = root / 'images' if apart else root
        photo.write(folder / photo.path)
        path, where = photo.name, root / f'{photo.stem}.json'
        if apart:
            path = '\\'.join(['..', 'images', *photo.path.split('/')])
            where = root / f'json/{i}.json'
        write(where, json.dumps(dict(
            version='5.4.1', flags={}, shapes=shapes(photo, random),
            imagePath=path, imageData=None, imageWidth=photo.size[0],
            imageHeight=photo.size[1])))


FORMS = dict(
    voc=(write_voc, Features(extensions=False, pixels='either')),
    voc_flat=(write_voc_flat, Features(splits=False, pixels='either')),
    voc_split_folders=(write_voc_split_folders, Features(
        nested=False, extensions=False, pixels='option')),
    ro_label_img=(write_ro_label_img, Features(
        extensions=False, rotated=True, pixels='option')),
    labelme=(write_labelme, Features(
        extensions=False, splits=False, grouped=True, rotated=True)))
