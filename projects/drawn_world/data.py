# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The demo's data set: drawn on the spot, nothing to download.

What is made, below ``${QBHEAT_CACHE:-~/.cache/qbheat_mm}/demo/KEY/``:

- ``classification/train/CLASS/*.jpg`` and ``classification/val/CLASS/*.jpg``,
  an image folder with one large object in each image. Pre-training reads
  ``train`` without its labels; the probes learn from the part of it that
  ``classification/meta/labelled.txt`` lists.
- ``detection/train/*.jpg``, ``detection/val/*.jpg`` and
  ``detection/annotations/instances_{train,val}.json``, a COCO-format set
  with a few objects in each image, their boxes and masks.

All are scenes of :mod:`projects.drawn_world`.

``python -m projects.drawn_world.data`` makes it and prints where it is.
"""
import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2
import numpy as np

from qbheat_mm.errors import UserError

from . import (
    CLASSES,
    TextureBank,
    classification_scene,
    detection_scene,
    objects,
    scenes,
    textures,
)


@dataclass(frozen=True)
class DemoSizes:
    """How much is drawn; numbers of images but for the first three.

    Attributes:
        image_size: Side of the images in pixels.
        seed: Of everything that is drawn.
        tiles: Of the bank of textures.
        train: Images for pre-training.
        labelled: How many of them the probes may learn from.
        val: Images that the probes are measured on.
        detection_train: Images that the detectors learn from.
        detection_val: Images that the detectors are measured on.
    """
    image_size: int = 128
    seed: int = 0
    tiles: int = 160
    train: int = 6000
    labelled: int = 2400
    val: int = 1200
    detection_train: int = 3000
    detection_val: int = 300


#: What configs name: the demo's own sizes, the same with four times as many
#: images without labels, and a few images for tests.
SIZES = dict(
    full=DemoSizes(),
    more=DemoSizes(train=4 * DemoSizes.train),
    tiny=DemoSizes(
        tiles=16, train=64, labelled=32, val=16, detection_train=16,
        detection_val=8))


def demo_root(sizes: str = 'full') -> Path:
    """Where the data set is, or will be.

    The last folder is named after the sizes and the code that draws, so that
    a change of either makes another folder.

    Args:
        sizes (str): A key of ``SIZES``. Defaults to 'full'.

    Returns:
        Path: The folder of this version.

    Raises:
        KeyError: Unknown sizes.
    """
    cache = os.environ.get('QBHEAT_CACHE') or '~/.cache/qbheat_mm'
    digest = hashlib.sha256(
        json.dumps(asdict(SIZES[sizes]), sort_keys=True).encode())
    for file in (__file__, objects.__file__, scenes.__file__,
                 textures.__file__):
        digest.update(Path(file).read_bytes())
    return (Path(cache).expanduser().resolve() / 'demo' /
            f'{sizes}-{digest.hexdigest()[:10]}')


def ensure_demo_data(sizes: str = 'full') -> Path:
    """Make the data set unless it is there.

    It appears at once and whole: it is drawn into a folder beside its place
    and renamed. Processes that want it at the same time wait for the first.

    Args:
        sizes (str): A key of ``SIZES``. Defaults to 'full'.

    Returns:
        Path: Its folder, which holds ``classification`` and ``detection``.
    """
    from filelock import FileLock  # comes with torch

    root = demo_root(sizes)
    if root.is_dir():
        return root
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=root.parent).close()
    except OSError as error:
        raise UserError(
            f"the folder '{root.parent}' for drawings cannot be written "
            f'({error.strerror or error}): set QBHEAT_CACHE to another'
        ) from error
    with FileLock(f'{root}.lock'):
        if root.is_dir():
            return root
        unfinished = Path(
            tempfile.mkdtemp(prefix='unfinished-', dir=root.parent))
        try:
            unfinished.chmod(0o755)
            _draw(unfinished, SIZES[sizes])
            unfinished.rename(root)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return root


def _draw(root: Path, sizes: DemoSizes) -> None:
    bank = TextureBank(sizes.seed, sizes.tiles)
    for number, (split, count) in enumerate(
            dict(train=sizes.train, val=sizes.val).items()):
        draw_classification(root / 'classification' / split, bank, sizes,
                            number, count)
    _list_labelled(root / 'classification', sizes)
    for number, (split, count) in enumerate(
            dict(train=sizes.detection_train,
                 val=sizes.detection_val).items()):
        draw_detection(root / 'detection', split, bank, sizes, 2 + number,
                       count)


def _generators(sizes: DemoSizes, split_number: int,
                count: int) -> Iterator[np.random.Generator]:
    """A generator for each image: none depends on those before it."""
    for index in range(count):
        yield np.random.default_rng([sizes.seed, split_number, index])


def draw_classification(folder: Path, bank: TextureBank, sizes: DemoSizes,
                        split_number: int, count: int) -> None:
    """Draw ``count`` images into FOLDER/CLASS, the categories in turn.

    Images of another ``split_number`` are others.
    """
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
    generators = _generators(sizes, split_number, count)
    for index, rng in enumerate(generators):
        label = index % len(CLASSES)
        scene = classification_scene(rng, bank, label, sizes.image_size)
        _write(folder / CLASSES[label] / f'{index:05d}.jpg', scene.image)


def _list_labelled(folder: Path, sizes: DemoSizes) -> None:
    """Name the images whose labels may be used, as ``CLASS/FILE LABEL``."""
    lines = []
    for index in range(sizes.labelled):
        label = index % len(CLASSES)
        lines.append(f'{CLASSES[label]}/{index:05d}.jpg {label}\n')
    (folder / 'meta').mkdir()
    (folder / 'meta' / 'labelled.txt').write_text(
        ''.join(lines), encoding='utf-8')


def draw_detection(folder: Path, split: str, bank: TextureBank,
                   sizes: DemoSizes, split_number: int, count: int) -> None:
    """Draw ``count`` images into FOLDER/SPLIT, and their annotation file.

    It is FOLDER/annotations/instances_SPLIT.json, in COCO's format.
    """
    (folder / split).mkdir(parents=True)
    images, annotations = [], []
    generators = _generators(sizes, split_number, count)
    for index, rng in enumerate(generators):
        scene = detection_scene(rng, bank, sizes.image_size)
        name = f'{index:05d}.jpg'
        _write(folder / split / name, scene.image)
        images.append(
            dict(
                id=index,
                file_name=name,
                width=sizes.image_size,
                height=sizes.image_size))
        for label, (left, top, right, bottom), mask in zip(
                scene.labels, scene.boxes, scene.masks):
            annotations.append(
                dict(
                    id=len(annotations) + 1,
                    image_id=index,
                    category_id=label + 1,
                    bbox=[left, top, right - left, bottom - top],
                    area=int(mask.sum()),
                    segmentation=_run_lengths(mask),
                    iscrowd=0))
    categories = [dict(id=i + 1, name=name) for i, name in enumerate(CLASSES)]
    (folder / 'annotations').mkdir(exist_ok=True)
    (folder / 'annotations' / f'instances_{split}.json').write_text(
        json.dumps(
            dict(
                images=images, annotations=annotations,
                categories=categories)),
        encoding='utf-8')


def _run_lengths(mask: np.ndarray) -> dict:
    """A mask as COCO's run lengths: down the columns, what is 0 first."""
    flat = mask.ravel(order='F')
    starts = np.flatnonzero(np.diff(flat, prepend=False))
    counts = np.diff([0, *starts, flat.size])
    return dict(size=list(mask.shape), counts=counts.tolist())


def _write(path: Path, image: np.ndarray) -> None:
    """Write an RGB image; cv2 returns False where others raise."""
    if not cv2.imwrite(
            str(path), image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95]):
        raise OSError(f'cannot write {path}: is the disk full? The folder '
                      'can be changed with QBHEAT_CACHE')


def main() -> None:
    """Make the data set and print its folder."""
    parser = argparse.ArgumentParser(
        prog='python -m projects.drawn_world.data',
        description='Make the demo\'s data set unless it is there, and print '
        'its folder. QBHEAT_CACHE changes where it goes.')
    parser.add_argument('--sizes', choices=list(SIZES), default='full')
    try:
        print(ensure_demo_data(parser.parse_args().sizes))
    except UserError as error:
        sys.exit(f'error: {error}')


if __name__ == '__main__':
    main()
