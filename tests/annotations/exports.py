# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Small exports as tools write them, each with its habits.

Twelve images with a cat and a dog each. Every writer takes the folder of the
export and returns what else is in it: the numbers of boxes and images that
must be left out.
"""
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = WIDTH, HEIGHT = 64, 48
CLASSES = ('cat', 'dog')
NAMES = [f'photo{chr(97 + i)}.jpg' for i in range(12)]
#: Class, x, y, width, height of the objects in each image.
BOXES = [('cat', 4, 6, 20, 16), ('dog', 30, 20, 24, 20)]


def write_image(path: Path, seed: int, size=SIZE) -> None:
    pixels = np.random.default_rng(seed).integers(
        0, 255, (size[1] // 4, size[0] // 4, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).resize(size, Image.Resampling.NEAREST).save(path)


def write_images(folder: Path, names=NAMES) -> None:
    for i, name in enumerate(names):
        write_image(folder / name, i + len(folder.parts[-1]) * 1000)


def rectangle(x, y, w, h) -> list[float]:
    return [x, y, x + w, y, x + w, y + h, x, y + h]


def coco(names=NAMES, **more) -> dict:
    """COCO as it should be."""
    return dict(
        info=dict(),
        images=[dict(id=i, file_name=name, width=WIDTH, height=HEIGHT)
                for i, name in enumerate(names, 1)],
        categories=[dict(id=i, name=name, supercategory='')
                    for i, name in enumerate(CLASSES, 1)],
        annotations=[
            dict(id=2 * i + j, image_id=i, category_id=j + 1, bbox=box,
                 area=box[2] * box[3], iscrowd=0, segmentation=[])
            for i in range(1, len(names) + 1)
            for j, (_, *box) in enumerate(BOXES)], **more)


def write_json(path: Path, content, encoding='utf-8') -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding)


def write_roboflow(root: Path) -> None:
    """An unused parent has id 0; each split has its file."""
    for split in ('train', 'valid', 'test'):
        names = [f'{name[:-4]}_jpg.rf.{i:032x}.jpg'
                 for i, name in enumerate(NAMES)]
        content = coco(names)
        content['categories'] = [
            dict(id=0, name='pets', supercategory='none'), *(
                dict(each, supercategory='pets')
                for each in content['categories'])]
        write_images(root / split, names)
        write_json(root / split / '_annotations.coco.json', content)


def write_cvat(root: Path) -> None:
    """Brush masks are crowds in run-length encoding."""
    content = coco(licenses=[dict(name='', id=0, url='')])
    for each in content['annotations'][::3]:
        x, y, w, h = each['bbox']
        mask = np.zeros((HEIGHT, WIDTH), int)
        mask[y:y + h, x:x + w] = 1
        steps = np.flatnonzero(np.diff(mask.T.ravel(), prepend=0))
        counts = np.diff([0, *steps, mask.size]).tolist()
        each.update(iscrowd=1, segmentation=dict(
            counts=counts, size=[HEIGHT, WIDTH]))
    write_images(root / 'images/default')
    write_json(root / 'annotations/instances_default.json', content)


def write_via(root: Path) -> None:
    """Text for ids, flat polygons, a category for each box."""
    content = coco()
    content['info'] = dict(description='Exported using VGG Image Annotator '
                           '(http://www.robots.ox.ac.uk/~vgg/software/via/)')
    content['categories'] *= 12
    for each in content['images']:
        each.update(id=int(each['id']), width=0, height=0)
    for each in content['annotations']:
        each.update(image_id=str(each['image_id']),
                    segmentation=rectangle(*each['bbox']))
    write_images(root)
    write_json(root / 'via_export_coco.json', content)


def write_label_studio(root: Path) -> None:
    """File names carry the server's path and a hash."""
    names = [f'../../label-studio/data/media/upload/3/{i:08x}-{name}'
             if i % 2 else f'images\\{i:08x}-{name}'
             for i, name in enumerate(NAMES)]
    content = coco(names)
    content['info'] = dict(contributor='Label Studio')
    for each in content['categories']:
        each['id'] -= 1
    for each in content['annotations']:
        each['category_id'] -= 1
    write_images(root / 'images', [
        name if i % 3 else f'{i:08x}-{name}' for i, name in enumerate(NAMES)])
    write_json(root / 'result.json', content)


def write_fiftyone(root: Path) -> None:
    """All classes of the tool are listed; numbers may be text."""
    content = coco()
    content['info'] = dict(description='Exported from FiftyOne')
    content['categories'].append(dict(id=3, name='zebra'))
    content['annotations'][0]['bbox'] = ['4', '6', '20', '16']
    write_images(root / 'data')
    write_json(root / 'labels.json', content, 'utf-8-sig')


def write_plain(root: Path) -> None:
    """With a split, polygons without boxes, and files in upper case."""
    for split in ('train', 'val'):
        content = coco()
        for each in content['annotations']:
            each.update(segmentation=[rectangle(*each.pop('bbox'))])
        write_images(root / f'{split}2017', [each.upper() for each in NAMES])
        write_json(root / f'annotations/instances_{split}2017.json', content)


def yolo_lines(polygons: bool) -> str:
    lines = []
    for i, (_, x, y, w, h) in enumerate(BOXES):
        values = [x + w / 2, y + h / 2, w, h]
        if polygons and i:
            values = rectangle(x, y, w, h)
        lines.append(' '.join(map(str, (i, *(
            value / SIZE[n % 2] for n, value in enumerate(values))))))
    return '\n'.join(lines) + '\n'


def write_yolo(root: Path) -> None:
    """Roboflow's: relative to another folder; no test split; polygons."""
    for split in ('train', 'valid'):
        write_images(root / split / 'images')
        for name in NAMES:
            file = root / split / 'labels' / f'{name[:-4]}.txt'
            file.parent.mkdir(exist_ok=True)
            file.write_text(yolo_lines(polygons=True))
    (root / 'data.yaml').write_text(
        'train: ../train/images\nval: ../valid/images\n'
        'test: ../test/images\n\nnc: 2\nnames: [\'cat\', \'dog\']\n')


def write_ultralytics(root: Path) -> None:
    """A root that isn't here, names by number, lists of images."""
    write_images(root / 'images/all')
    for name in NAMES:
        file = root / 'labels/all' / f'{name[:-4]}.txt'
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yolo_lines(polygons=False))
    (root / 'train.txt').write_text(''.join(
        f'./images/all/{name}\n' for name in NAMES[:9]))
    (root / 'val.txt').write_text(''.join(
        f'/content/pets/images/all/{name}\n' for name in NAMES[9:]))
    (root / 'pets.yaml').write_text(
        'path: /content/pets\ntrain: train.txt\nval: val.txt\n'
        'names:\n  0: cat\n  1: dog\n')


def write_voc(root: Path) -> None:
    """Pixels from 1 on; a difficult object; lists of ImageSets."""
    write_images(root / 'JPEGImages')
    (root / 'Annotations').mkdir()
    for i, name in enumerate(NAMES):
        objects = ''.join(
            f'<object><name>{label}</name><difficult>{int(i == j == 0)}'
            f'</difficult><bndbox><xmin>{x + 1}</xmin><ymin>{y + 1}</ymin>'
            f'<xmax>{x + w}</xmax><ymax>{y + h}</ymax></bndbox></object>'
            for j, (label, x, y, w, h) in enumerate(BOXES))
        (root / 'Annotations' / f'{name[:-4]}.xml').write_text(
            f'<annotation><filename>{name}</filename><path>C:\\{name}</path>'
            f'<size><width>{WIDTH}</width><height>{HEIGHT}</height></size>'
            f'{objects}</annotation>')
    main = root / 'ImageSets/Main'
    main.mkdir(parents=True)
    stems = [name[:-4] for name in NAMES]
    for split, some in (('train', stems[:8]), ('val', stems[8:]),
                        ('trainval', stems)):
        (main / f'{split}.txt').write_text('\n'.join(some) + '\n')
    (main / 'cat_train.txt').write_text(f'{stems[0]}  1\n')


def write_labelme(root: Path) -> None:
    """Polygons, rectangles and circles; the image is in the file, too."""
    write_images(root)
    for name in NAMES:
        (_, x, y, w, h), (_, *dog) = BOXES
        points = rectangle(*dog)
        shapes = [
            dict(label='cat', shape_type='rectangle',
                 points=[[x + w, y + h], [x, y]]),
            dict(label='dog', shape_type='polygon',
                 points=[points[i:i + 2] for i in range(0, 8, 2)])]
        if name == NAMES[0]:
            shapes += [dict(label='cat', shape_type='circle',
                            points=[[40, 10], [48, 10]]),
                       dict(label='cat', shape_type='point',
                            points=[[1, 1]])]
        write_json(root / f'{name[:-4]}.json', dict(
            version='5.4.1', flags={}, shapes=shapes, imageData='/9j/4AAQ',
            imagePath=f'..\\pets\\{name}', imageHeight=HEIGHT,
            imageWidth=WIDTH))


@dataclass
class Case:
    """An export: what it is called, holds, and which boxes are lost."""
    write: Callable[[Path], None]
    source: str
    images: int = 12
    boxes: int = 24
    left_out: int = 0
    put_right: tuple = ()


CASES = dict(
    roboflow=Case(write_roboflow, 'Roboflow, COCO', 36, 72, 0, (
        'unused parent categories', )),
    cvat=Case(write_cvat, 'CVAT, COCO 1.0', put_right=(
        'masks marked as crowds that became objects', )),
    via=Case(write_via, 'VGG Image Annotator, COCO', put_right=(
        'repeated categories', 'ids written as text', 'flat polygons')),
    label_studio=Case(write_label_studio, 'Label Studio, COCO', put_right=(
        'image names that differ from the files', )),
    fiftyone=Case(write_fiftyone, 'FiftyOne, COCO', put_right=(
        'numbers written as text', 'files with a byte order mark')),
    plain=Case(write_plain, 'COCO', 24, 48, put_right=(
        'boxes computed from their polygon',
        )),
    yolo=Case(write_yolo, 'YOLO with data.yaml', 24, 48, put_right=(
        'splits that do not exist here', )),
    ultralytics=Case(write_ultralytics, 'YOLO with pets.yaml'),
    voc=Case(write_voc, 'Pascal VOC', put_right=(
        'boxes in pixels that start at 1', )),
    labelme=Case(write_labelme, 'labelme', 12, 25, 1))
