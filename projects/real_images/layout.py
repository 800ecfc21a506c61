# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Lay out a public image set as the study reads it.

FOLDER holds the files as they are published, unpacked;
projects/study/README.md names the sources. Writes images to OUT/train and
OUT/test, and their boxes to COCO files in OUT/annotations: train and test, and
of the training images, "held" (every third) and "fit", to choose settings.
"""
import argparse
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from qbheat_mm.annotations.account import Account
from qbheat_mm.annotations.coco_output import write_coco
from qbheat_mm.annotations.files import ExportFiles
from qbheat_mm.annotations.output_folder import require_new
from qbheat_mm.annotations.records import Box, ListedImage
from qbheat_mm.annotations.voc import read_voc
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


class Placed(NamedTuple):
    """A published image and its place below OUT."""
    image: ListedImage
    place: str


def read_annotations(folder: Path) -> Iterator[tuple[str, ListedImage]]:
    """Read Pascal VOC; yield the images' own names."""
    files = ExportFiles(str(folder), None, Account())
    paths = []
    for path in files.find('.xml'):
        if Path(path).parent.name.lower() == 'annotations':
            paths.append(path)
    if not paths:
        raise FileNotFoundError('no ANNOTATIONS/*.xml')
    by_name = {Path(path).name: path for path in files.images}
    for image in read_voc(paths, files).images:
        name = f'{Path(image.source).stem}.jpg'
        image.file = by_name.get(name, str(folder / name))
        yield name, image


def read_steel(folder: Path) -> Iterator[Placed]:
    """NEU-DET: images 1 to 240 of each class are for training."""
    for name, image in read_annotations(folder):
        kind, _, number = Path(name).stem.rpartition('_')
        split = 'train' if int(number) <= 240 else 'test'
        yield Placed(image, f'{split}/{kind}/{name}')


def read_blood(folder: Path) -> Iterator[Placed]:
    """BCCD: the published validation images are for training."""
    listed = folder / 'BCCD/ImageSets/Main/test.txt'
    if not listed.exists():
        raise FileNotFoundError(listed)
    for name, image in read_annotations(folder / 'BCCD'):
        split = 'test' if image.split == 'test' else 'train'
        yield Placed(image, f'{split}/{name}')


def read_pcb(folder: Path) -> Iterator[Placed]:
    """DeepPCB: the tested boards, without their templates."""
    folder = folder / 'PCBData'
    for split, listed in (('train', 'trainval'), ('test', 'test')):
        for line in (folder / f'{listed}.txt').read_text().splitlines():
            name, source = line.split()
            file = folder / name.replace('.jpg', '_test.jpg')
            image = ListedImage(name, str(folder / source), [],
                                file=str(file))
            for row in (folder / source).read_text().splitlines():
                *corners, kind = map(int, row.split())
                box = Box(label=CLASSES['pcb'][kind - 1])
                image.boxes.append(box.surround(corners))
            yield Placed(image, f'{split}/{file.name}')


READERS = dict(steel=read_steel, blood=read_blood, pcb=read_pcb)


def write(placed: Sequence[Placed], classes: Sequence[str], out: Path
          ) -> None:
    """Copy images, and write the COCO files of their boxes."""
    require_new(str(out), ('annotations', ))
    splits = defaultdict(list)
    for image, place in placed:
        target = out / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image.file, target)
        image.file, image.size = str(target), Image.open(target).size
        split = target.relative_to(out).parts[0]
        if split == 'train':  # settings are chosen on every third image
            third = len(splits['train']) % 3 == 0
            splits['held' if third else 'fit'].append(image)
        splits[split].append(image)
    write_coco(str(out), splits, classes, str(out), masks=False,
               account=Account())
    for split, images in splits.items():
        boxes = sum(len(image.boxes) for image in images)
        print(f'{split}: {len(images)} images, {boxes} boxes')


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
        placed = list(READERS[args.set](args.folder))
        write(placed, CLASSES[args.set], args.out)
    except FileNotFoundError as error:
        raise UserError(f"'{args.folder}' is not {args.set} as published "
                        f'(projects/study/README.md): {error}') from None


if __name__ == '__main__':
    report_user_errors(main)
