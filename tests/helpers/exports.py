# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Writers of exports, and readers of what became of them.

Exports in tests/data/exports, each with its tool's habits, get images.
"""
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from qbheat_mm.apis import prepare_boxes

DATA = Path(__file__).parents[1] / 'data/exports'
SIZE = WIDTH, HEIGHT = 64, 48
CLASSES = ('cat', 'dog')
STEMS = [f'photo{letter}' for letter in 'abcdef']
#: Names of images with numbered boxes.
NAMES = [f'{letter}.jpg' for letter in 'abcdef']
#: Left, top, width and height of a cat and a dog.
CAT, DOG = ('cat', 2, 3, 10, 9), ('dog', 20, 12, 12, 15)
#: Boxes (x, y, width, height) of the cat and the dog.
BOXES = [(4, 6, 20, 16), (30, 20, 24, 20)]


@dataclass
class Case:
    """An export, and what must become of it.

    ``images`` is a pattern of their names, with the stem and a number.
    """
    source: str
    images: str
    folders: tuple = ('', )
    boxes: int = 12
    skipped: int = 0
    corrected: tuple = ()

    def write(self, root: Path) -> None:
        name, = (name for name, case in CASES.items() if case is self)
        shutil.copytree(DATA / name, root, dirs_exist_ok=True)
        for folder in self.folders:
            for i, stem in enumerate(STEMS):
                write_image(root / folder / self.images.format(
                    stem, i, STEM=stem.upper()), i + 1000 * len(folder))


CASES = dict(
    roboflow=Case('COCO', '{}_jpg.rf.{:032x}.jpg',
                  ('train', 'valid', 'test'), 36, 0,
                  ('without a box', )),
    cvat=Case('CVAT, COCO 1.0', 'images/default/{}.jpg', corrected=(
        'crowds that became objects', )),
    via=Case('COCO', '{}.jpg'),
    # In the export, file names have the server's path and a hash.
    label_studio=Case('Label Studio, COCO', 'images/{}.jpg', corrected=(
        'image names that differ from the files', )),
    fiftyone=Case('COCO', 'data/{}.jpg', corrected=(
        'numbers written as text', 'without a box')),
    plain=Case('COCO', '{STEM}.JPG', ('train2017', 'val2017'), 24, 0,
               ('boxes computed from their polygon', )),
    yolo=Case('YOLO with data.yaml', '{}.jpg',
              ('train/images', 'valid/images'), 24, 0,
              ('splits that do not exist here', )),
    ultralytics=Case('YOLO with pets.yaml', 'images/all/{}.jpg'),
    voc=Case('Pascal VOC', 'JPEGImages/{}.jpg', corrected=(
        "'difficult' objects that became crowds", )),
    labelme=Case('labelme', '{}.jpg', boxes=13, skipped=1))


def write_image(path: Path, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(
        0, 255, (HEIGHT // 4, WIDTH // 4, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).resize(SIZE, Image.Resampling.NEAREST).save(path)


def write_coco(root: Path, change=lambda content: None) -> None:
    """Write an export in COCO format after a change of its content."""
    content = dict(
        images=[dict(id=i, file_name=f'{stem}.jpg', width=WIDTH,
                     height=HEIGHT) for i, stem in enumerate(STEMS)],
        categories=[dict(id=i, name=name) for i, name in enumerate(CLASSES)],
        annotations=[dict(image_id=i, category_id=j, bbox=list(box))
                     for i in range(len(STEMS))
                     for j, box in enumerate(BOXES)])
    change(content)
    for i, stem in enumerate(STEMS):
        write_image(root / f'images/{stem}.jpg', i)
    (root / 'labels.json').write_text(json.dumps(content))


def number_box(number: int) -> tuple[float, ...]:
    """A box by which an image is known."""
    return number % 30 + 1., number // 30 + 2., 20., 16.


def write_numbered(root: Path, names) -> None:
    """Write images of equal sizes and different content."""
    for i, name in enumerate(names):
        write_image(root / name, i)


def coco(names, boxes=None, **settings) -> dict:
    """The content of a COCO file, with the numbered box in each image."""
    return dict(
        images=[dict(id=i, file_name=name, width=WIDTH, height=HEIGHT)
                for i, name in enumerate(names)],
        categories=[dict(id=1, name='cat')],
        annotations=[dict(image_id=i, category_id=1,
                          bbox=(boxes or {}).get(i, number_box(i)))
                     for i in range(len(names))], **settings)


def write_json(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def voc_object(label: str, x, y, w, h, extra='') -> str:
    """An object of Pascal VOC with a box."""
    return (f'<object><name>{label}</name>{extra}<bndbox><xmin>{x}</xmin>'
            f'<ymin>{y}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax>'
            '</bndbox></object>')


def write_voc(path: Path, filename: str, number: int, objects='',
              size=SIZE) -> None:
    """Write an XML file with the numbered box, or other objects."""
    objects = objects or voc_object('cat', *number_box(number))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<annotation><filename>{filename}</filename><size>'
        f'<width>{size[0]}</width><height>{size[1]}</height></size>'
        f'{objects}</annotation>')


def yolo_line(index: int, x, y, w, h, more='') -> str:
    """A line of YOLO with a box, and maybe more numbers."""
    return (f'{index} {(x + w / 2) / WIDTH} {(y + h / 2) / HEIGHT} '
            f'{w / WIDTH} {h / HEIGHT}{more}\n')


def write_yolo(root: Path, texts, classes='classes.txt') -> None:
    """Write label files, by name, each with its numbered box."""
    for name, number in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yolo_line(0, *number_box(number)))
    if classes:
        (root / classes).write_text('cat\n')


def write_labelme(path: Path, image: str, shapes) -> None:
    """Write labelme's file with shapes, of cats unless they have a label."""
    write_json(path, dict(
        version='5.4.1', flags={}, imagePath=image, imageData=None,
        shapes=[dict(label='cat') | shape for shape in shapes],
        imageWidth=WIDTH, imageHeight=HEIGHT))


def write_each(form: str, root: Path, names=NAMES) -> None:
    """Write a file beside each image, with its numbered box."""
    texts = {}
    for number, name in enumerate(names):
        stem, image = root / os.path.splitext(name)[0], os.path.basename(name)
        if form == 'voc':
            write_voc(Path(f'{stem}.xml'), image, number)
        elif form == 'labelme':
            write_labelme(Path(f'{stem}.json'), image, [rectangle(number)])
        else:
            texts[f'{stem}.txt'] = number
    if texts:
        write_yolo(root, texts)


def rectangle(number: int) -> dict:
    """A shape of labelme with the numbered box."""
    x, y, w, h = number_box(number)
    return dict(points=[[x, y], [x + w, y + h]], shape_type='rectangle')


def prepare(root: Path, **options) -> tuple:
    """Prepare ``root/pets``; return the report and the boxes of images."""
    report = prepare_boxes(str(root / 'pets'), str(root / 'out'), **options)
    return report, read_boxes(root / 'out')


def words(report) -> str:
    """A report as text, without its layout."""
    return ' '.join(str(report).split())


def read_boxes(out: Path) -> dict:
    """Map the names of prepared images to their boxes (class, x, y, w, h)."""
    boxes = {}
    for content in read_content(out).values():
        names = {each['id']: each['name'] for each in content['categories']}
        images = {each['id']: each['file_name'] for each in content['images']}
        boxes |= {name: [] for name in images.values()}
        for each in content['annotations']:
            boxes[images[each['image_id']]].append(
                (names[each['category_id']],
                 *(round(x, 4) for x in each['bbox'])))
    return boxes


def read_splits(out: Path) -> dict:
    """Map the names of prepared images to their splits."""
    return {image['file_name']: split
            for split, content in read_content(out).items()
            for image in content['images']}


def read_content(out: Path) -> dict:
    return {file.stem: json.loads(file.read_text())
            for file in (out / 'annotations').iterdir()}
