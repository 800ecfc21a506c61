# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Draw the data sets of the demo and the study.

``${QBHEAT_CACHE:-~/.cache/qbheat_mm}/demo/KEY/`` gets

- ``classification/{train,val}/CLASS/*.jpg``, one large object per image.
  ``classification/meta/unlabeled.txt`` lists all of ``train``, for
  pre-training; ``meta/labeled.txt`` the first ones with labels, for probes.
- ``detection/{train,val}/*.jpg`` and
  ``detection/annotations/instances_{train,val}.json``, a COCO data set with
  boxes and masks of a few objects per image.

``python -m projects.drawn_world.data`` draws it and prints its folder.
"""
import argparse
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from filelock import FileLock  # comes with torch

from qbheat_mm.errors import UserError

from .scenes import classification_scene, detection_scene
from .textures import MaterialBank, TextureBank

BANKS = dict(demo=TextureBank, materials=MaterialBank)


@dataclass(frozen=True)
class DemoSizes:
    """How much to draw.

    Attributes:
        image_size: Height and width in pixels.
        seed: Seed of all drawings.
        tiles: Textures in the bank.
        train: Images for pre-training.
        labeled: How many of them have labels for probes.
        val: Images to evaluate probes on.
        detection_train: Images to train detectors on.
        detection_val: Images to evaluate detectors on.
        kind: A key of ``BANKS``.
    """
    image_size: int = 128
    seed: int = 0
    tiles: int = 160
    train: int = 6000
    labeled: int = 2400
    val: int = 1200
    detection_train: int = 3000
    detection_val: int = 300
    kind: str = 'demo'

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return BANKS[self.kind].classes

    def bank(self) -> TextureBank:
        """Make the surfaces and objects."""
        return BANKS[self.kind](self.seed, self.tiles)


#: Sizes by the names in configs: the demo's, and a few images for tests.
SIZES = dict(
    full=DemoSizes(),
    tiny=DemoSizes(
        tiles=16, train=64, labeled=32, val=16, detection_train=16,
        detection_val=8))
_STUDY = DemoSizes(kind='materials', train=10000, val=800,
                   detection_train=2000, detection_val=400)
#: The study's, by seed; 99 is for tuning.
for _seed in (*range(6), 99):
    SIZES[f'study-{_seed}'] = replace(_STUDY, seed=_seed)


def demo_root(sizes: str = 'full') -> Path:
    """Folder of the data set; its name depends on sizes and code.

    Args:
        sizes (str): A key of ``SIZES``. Defaults to 'full'.
    """
    cache = os.environ.get('QBHEAT_CACHE') or '~/.cache/qbheat_mm'
    digest = hashlib.sha256(
        json.dumps(asdict(SIZES[sizes]), sort_keys=True).encode())
    for module in ('data', 'objects', 'scenes', 'textures'):
        digest.update((Path(__file__).parent / f'{module}.py').read_bytes())
    return (Path(cache).expanduser().resolve() / 'demo' /
            f'{sizes}-{digest.hexdigest()[:10]}')


def ensure_demo_data(sizes: str = 'full') -> Path:
    """Draw the data set unless it exists, and return its folder.

    Concurrent processes wait for the first; an interrupted one leaves
    nothing.

    Args:
        sizes (str): A key of ``SIZES``. Defaults to 'full'.

    Raises:
        UserError: If it cannot be written.
    """
    root = demo_root(sizes)
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f'{root}.lock'):
            if not root.is_dir():
                with tempfile.TemporaryDirectory(
                        prefix='unfinished-', dir=root.parent) as folder:
                    draw(Path(folder) / 'data', SIZES[sizes])
                    (Path(folder) / 'data').rename(root)
    except OSError as error:
        raise UserError(f"cannot draw the data in '{root.parent}' ({error}): "
                        'set QBHEAT_CACHE to another folder') from error
    return root


def draw(root: Path, sizes: DemoSizes) -> None:
    """Draw a data set into a new folder."""
    bank = sizes.bank()
    for number, split in enumerate(('train', 'val')):
        draw_classification(root / 'classification' / split, bank, sizes,
                            number, getattr(sizes, split))
        draw_detection(root / 'detection', split, bank, sizes, 2 + number,
                       getattr(sizes, f'detection_{split}'))
    _list_images(root / 'classification' / 'meta', sizes)


def _generator(sizes: DemoSizes, *index: int) -> np.random.Generator:
    """Seed an image by split and number, so that none depends on another."""
    return np.random.default_rng([sizes.seed, *index])


def draw_classification(folder: Path, bank: TextureBank, sizes: DemoSizes,
                        split: int, count: int) -> None:
    """Draw images into FOLDER/CLASS, the classes in turn.

    Args:
        folder (Path): Must not exist.
        bank (TextureBank): Surfaces and objects.
        sizes (DemoSizes): Image size and seed.
        split (int): Number of the split, part of each image's seed.
        count (int): Number of images.
    """
    for name in bank.classes:
        (folder / name).mkdir(parents=True)
    for index in range(count):
        label = index % len(bank.classes)
        scene = classification_scene(_generator(sizes, split, index), bank,
                                     label, sizes.image_size)
        _write(folder / bank.classes[label] / f'{index:05d}.jpg', scene.image)


def _list_images(folder: Path, sizes: DemoSizes) -> None:
    """List all images, and the first ones with their labels."""
    labels = [index % len(sizes.classes) for index in range(sizes.train)]
    names = [f'{sizes.classes[label]}/{index:05d}.jpg'
             for index, label in enumerate(labels)]
    labeled = [f'{name} {label}' for name, label in zip(names, labels)]
    folder.mkdir()
    for name, lines in (('unlabeled', names),
                        ('labeled', labeled[:sizes.labeled])):
        (folder / f'{name}.txt').write_text(
            '\n'.join(lines) + '\n', encoding='utf-8')


def draw_detection(folder: Path, name: str, bank: TextureBank,
                   sizes: DemoSizes, split: int, count: int) -> None:
    """Draw images into FOLDER/NAME, annotated in COCO's format.

    The annotations are FOLDER/annotations/instances_NAME.json; for the other
    arguments see :func:`draw_classification`.
    """
    (folder / name).mkdir(parents=True)
    images, annotations = [], []
    for index in range(count):
        scene = detection_scene(_generator(sizes, split, index), bank,
                                sizes.image_size)
        file = f'{index:05d}.jpg'
        _write(folder / name / file, scene.image)
        images.append(dict(id=index, file_name=file, width=sizes.image_size,
                           height=sizes.image_size))
        for label, (left, top, right, bottom), mask in zip(
                scene.labels, scene.boxes, scene.masks):
            annotations.append(dict(
                id=len(annotations) + 1, image_id=index,
                category_id=label + 1,
                bbox=[left, top, right - left, bottom - top],
                area=int(mask.sum()), segmentation=_run_lengths(mask),
                iscrowd=0))
    categories = [dict(id=i, name=one)
                  for i, one in enumerate(bank.classes, 1)]
    (folder / 'annotations').mkdir(exist_ok=True)
    (folder / 'annotations' / f'instances_{name}.json').write_text(
        json.dumps(dict(images=images, annotations=annotations,
                        categories=categories)), encoding='utf-8')


def _run_lengths(mask: np.ndarray) -> dict:
    """Encode a mask in COCO's uncompressed run lengths."""
    flat = mask.ravel(order='F')
    starts = np.flatnonzero(np.diff(flat, prepend=False))
    counts = np.diff([0, *starts, flat.size])
    return dict(size=list(mask.shape), counts=counts.tolist())


def _write(path: Path, image: np.ndarray) -> None:
    """Write an RGB image; OpenCV returns False where others raise."""
    if not cv2.imwrite(
            str(path), image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95]):
        raise OSError(f"cannot write '{path}': is the disk full?")


def main() -> None:
    """Draw the data set and print its folder."""
    parser = argparse.ArgumentParser(
        prog='python -m projects.drawn_world.data',
        description='Draw a data set unless it exists, and print its folder. '
        'Set QBHEAT_CACHE to keep it elsewhere.')
    parser.add_argument('--sizes', choices=list(SIZES), default='full')
    parser.add_argument('--out', type=Path, help='draw into this new folder '
                        'instead, as many images as the options below say')
    for name, size in asdict(SIZES['full']).items():
        parser.add_argument(f'--{name.replace("_", "-")}', type=type(size),
                            default=size, metavar='N', dest=name,
                            help=f'defaults to {size}')
    args = vars(parser.parse_args())
    sizes, out = args.pop('sizes'), args.pop('out')
    if out:
        draw(out, DemoSizes(**args))
    print(out or ensure_demo_data(sizes))


if __name__ == '__main__':
    from qbheat_mm.cli.reporting import report_user_errors
    report_user_errors(main)
