# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Lay out a public image set as the study reads it.

FOLDER holds the files as they are published, unpacked; docs/study.md names the
sources. Writes images to OUT/train and OUT/test, and their boxes to COCO files
in OUT/annotations.
"""
import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from PIL import Image

from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError

SHRINK = (Path(__file__).resolve().parents[2]
          / 'tools/dataset_converters/shrink_images.py')
#: Classes of boxes.
CLASSES = dict(
    steel=('crazing', 'inclusion', 'patches', 'pitted_surface',
           'rolled-in_scale', 'scratches'),
    pcb=('open', 'short', 'mousebite', 'spur', 'copper', 'pin-hole'),
    blood=('RBC', 'WBC', 'Platelets'))


class Box(NamedTuple):
    """An object of a class, with its corners in pixels."""
    name: str
    x1: float
    y1: float
    x2: float
    y2: float


class Picture(NamedTuple):
    """A published image, its place below OUT, and its boxes."""
    file: Path
    place: str
    boxes: list[Box]


def read_voc(folder: Path, place: Callable[[str], str]) -> Iterator[Picture]:
    """Read Pascal VOC; ``place`` chooses folders by the images' names."""
    images = {file.name: file for file in folder.rglob('*.jpg')}
    files = [file for file in sorted(folder.rglob('*.xml'))
             if file.parent.name.lower() == 'annotations']
    if not files:
        raise FileNotFoundError('no ANNOTATIONS/*.xml')
    for file in files:
        name, boxes = f'{file.stem}.jpg', []
        for thing in ElementTree.parse(file).iterfind('object'):
            corners = [float(thing.findtext(f'bndbox/{side}'))
                       for side in ('xmin', 'ymin', 'xmax', 'ymax')]
            boxes.append(Box(thing.findtext('name'), *corners))
        yield Picture(images.get(name, folder / name),
                      f'{place(file.stem)}/{name}', boxes)


def read_steel(folder: Path) -> Iterator[Picture]:
    """NEU-DET: images 1 to 240 of each class are for training."""

    def place(name: str) -> str:
        kind, _, number = name.rpartition('_')
        return f'{"train" if int(number) <= 240 else "test"}/{kind}'

    return read_voc(folder, place)


def read_blood(folder: Path) -> Iterator[Picture]:
    """BCCD: the published validation images are for training."""
    test = (folder / 'BCCD/ImageSets/Main/test.txt').read_text().split()
    return read_voc(folder, lambda name: 'test' if name in test else 'train')


def read_pcb(folder: Path) -> Iterator[Picture]:
    """DeepPCB: the tested boards, without their templates."""
    folder = folder / 'PCBData'
    for split, listed in (('train', 'trainval'), ('test', 'test')):
        for line in (folder / f'{listed}.txt').read_text().splitlines():
            image, file = line.split()
            image = folder / image.replace('.jpg', '_test.jpg')
            boxes = []
            for row in (folder / file).read_text().splitlines():
                *corners, kind = map(int, row.split())
                boxes.append(Box(CLASSES['pcb'][kind - 1], *corners))
            yield Picture(image, f'{split}/{image.name}', boxes)


READERS = dict(steel=read_steel, blood=read_blood, pcb=read_pcb)


def write(pictures: list[Picture], classes: tuple[str], out: Path) -> None:
    """Copy images, and write the COCO files of their boxes."""
    (out / 'annotations').mkdir(parents=True, exist_ok=True)
    categories = [dict(id=number, name=name)
                  for number, name in enumerate(classes, 1)]
    for split in ('train', 'test'):
        images, annotations = [], []
        for picture in pictures:
            if not picture.place.startswith(split):
                continue
            target = out / picture.place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(picture.file, target)
            width, height = Image.open(target).size
            images.append(dict(id=len(images) + 1, file_name=picture.place,
                               width=width, height=height))
            for box in picture.boxes:
                size = box.x2 - box.x1, box.y2 - box.y1
                annotations.append(dict(
                    id=len(annotations) + 1, image_id=len(images),
                    category_id=classes.index(box.name) + 1,
                    bbox=[box.x1, box.y1, *size], area=size[0] * size[1],
                    iscrowd=0))
        content = dict(images=images, annotations=annotations,
                       categories=categories)
        (out / f'annotations/{split}.json').write_text(json.dumps(content))
        print(f'{split}: {len(images)} images, {len(annotations)} boxes')


def main() -> None:
    """Lay out a set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('set', choices=[*READERS, 'clothing'])
    parser.add_argument('folder', type=Path)
    parser.add_argument('--out', type=Path, required=True)
    args = parser.parse_args()
    if args.set == 'clothing':  # folders of classes already, but large images
        for part in ('train', 'validation', 'test'):
            subprocess.run([
                sys.executable, SHRINK, args.folder / part,
                args.out / part.replace('validation', 'train'),
                '--short-side', '256'], check=True)
        return
    try:
        write([*READERS[args.set](args.folder)], CLASSES[args.set], args.out)
    except FileNotFoundError as error:
        raise UserError(f"'{args.folder}' is not {args.set} as published "
                        f'(docs/study.md): {error}') from None


if __name__ == '__main__':
    report_user_errors(main)
