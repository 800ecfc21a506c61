# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A random truth: images and objects, before any tool has written them.

Knows nothing of the readers. `forms_*.py` write a truth as each tool does;
`test_oracle.py` compares what was prepared with it.
"""
import hashlib
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

#: Names that were mistaken for each other's, for hashes or for splits.
FAMILIES = [
    ['20240115-0800.jpg', '20240301-0800.jpg', '0800.jpg'],
    ['street.png', 'street.2.png', 'street.2.3.png'],
    ['001.png', '20230101-001.png', 'deadbeef-001.png'],
    ['f47ac10b-58cc-4372-a567-0e02b2c3d479.jpg',
     '6ba7b810-9dad-11d1-80b4-00c04fd430c8.jpg', '4372-a567.jpg'],
    ['train_7.jpg', 'test_1.jpg', 'valid.png', 'val-3.png'],
    ['2024-01-15 08.00.00.jpg', '1670577347.002843.jpg', 'photo.webp.jpg'],
    ['Straße 3.jpg', '照片 1.jpg', 'naïve café.png'],
    ["o'neil & co.jpg", '{{ fileDirname }}.jpg', 'a%20b.jpg', 'a b.jpg'],
    ['0a1b2c3d-cat.jpg', 'cat.jpg', 'e5f6a7b8-0a1b2c3d-cat.jpg'],
    ['frame_000001.jpg', 'frame_000002.jpg', 'frame_000010.jpg'],
    ['IMG_1.jpg', 'img_1.jpg', 'IMG_1_1.jpg'],
    ['images.jpg', 'labels.png', 'data.jpg'],
]
FOLDERS = ['', 'a', 'b', 'b/a', 'Fotos 1', '20240115']
LABELS = ['zebra', 'cat', 'Große Katze', '车', "o'brien", 'a/b', 'none',
          'C++', '{{ fileDirname }}', '10', '2']


@dataclass
class Target:
    """An object: a box, turned around its center, or several parts."""
    label: str
    #: Left, top, width and height of each part, before the rotation.
    parts: list
    #: Degrees, clockwise on the screen.
    angle: float = 0

    @property
    def corners(self) -> np.ndarray:
        """The turned box's corners, clockwise from its top left."""
        x, y, width, height = self.parts[0]
        cos = math.cos(math.radians(self.angle))
        sin = math.sin(math.radians(self.angle))
        square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
        turned = square * (width, height) @ np.array([[cos, sin], [-sin, cos]])
        return turned + (x + width / 2, y + height / 2)

    @property
    def box(self) -> tuple:
        """Left, top, width and height of the box around all of it."""
        if self.angle:
            low, high = self.corners.min(0), self.corners.max(0)
        else:
            parts = np.array(self.parts)
            low = parts[:, :2].min(0)
            high = (parts[:, :2] + parts[:, 2:]).max(0)
        return *low.tolist(), *(high - low).tolist()


@dataclass
class Photo:
    """An image file, maybe a lost one, and what is on it."""
    folder: str
    name: str
    #: Upright, height x width x 3.
    pixels: np.ndarray
    orientation: int = 1
    split: str = ''
    missing: bool = False
    targets: list = field(default_factory=list)
    #: Whether the export states boxes on stored pixels.
    stored: bool = False
    #: Where it was written.
    file: Path | None = None

    @property
    def path(self) -> str:
        return f'{self.folder}/{self.name}' if self.folder else self.name

    @property
    def stem(self) -> str:
        """The path without its extension."""
        return self.path.rpartition('.')[0]

    @property
    def size(self) -> tuple:
        """Upright width and height."""
        return self.pixels.shape[1], self.pixels.shape[0]

    @property
    def stored_size(self) -> tuple:
        return self.size[::-1] if self.orientation > 4 else self.size

    @property
    def stated_size(self) -> tuple:
        return self.stored_size if self.stored else self.size

    def state(self, points) -> np.ndarray:
        """Turn points on upright pixels into those that are stated."""
        width, height = self.size
        points = np.asarray(points, float)
        if not self.stored:
            return points
        x, y = points.T
        right, down = width - x, height - y
        columns = [None, (x, y), (right, y), (right, down), (x, down),
                   (y, x), (y, right), (down, right), (down, x)]
        return np.stack(columns[self.orientation], 1)

    def state_box(self, box) -> list:
        """Left, top, width and height as they are stated."""
        x, y, w, h = box
        points = self.state([(x, y), (x + w, y + h)])
        return [*points.min(0).tolist(),
                *(points.max(0) - points.min(0)).tolist()]

    def write(self, path: Path) -> None:
        """Write the stored pixels; JPEG files say how to turn them."""
        if self.missing:
            return
        assert not path.exists(), f'two photos are {path}'
        self.file = path
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(self.pixels)
        exif = Image.Exif()
        # The orientation whose correction undoes this one's.
        exif[274] = {6: 8, 8: 6}.get(self.orientation, self.orientation)
        image.getexif()[274] = exif[274]
        stored = ImageOps.exif_transpose(image)
        exif[274] = self.orientation
        stored.save(path, exif=exif, **(
            dict(quality=90) if path.suffix == '.jpg' else {}))


@dataclass
class Features:
    """What a form of export can state."""
    nested: bool = True
    rotated: bool = False
    grouped: bool = False
    missing: bool = True
    #: Whether equal stems with different extensions are told apart.
    extensions: bool = True
    splits: bool = True
    #: Whether there are always splits.
    must_split: bool = False
    negatives: bool = True
    #: Whether it names images, also those that are missing.
    listed: bool = True
    #: On which pixels boxes are: 'upright' if the tool is known for it,
    #: 'option' if the option must say so, 'either' if it says which.
    pixels: str = 'upright'
    #: One label an image, for classifiers.
    single: bool = False
    #: Whether labels may hold a slash.
    slashes: bool = True


@dataclass
class Truth:
    photos: list
    labels: list
    #: The option, or None if the tool is known to draw on upright pixels.
    boxes_on: str | None = None

    def of_split(self, split: str) -> list:
        return [photo for photo in self.photos if photo.split == split]

    @property
    def splits(self) -> list:
        return sorted({photo.split for photo in self.photos})


def fingerprint(path: Path) -> str:
    """The hash of an image's upright pixels."""
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image).convert('RGB')
        return hashlib.sha1(
            str(upright.size).encode() + upright.tobytes()).hexdigest()


def draw_target(random, label: str, size: tuple, features) -> Target:
    width, height = size
    parts = []
    for _ in range(2 if features.grouped and random.random() < 0.3 else 1):
        w = int(random.integers(5, width // 2))
        h = int(random.integers(5, height // 2))
        parts.append((int(random.integers(0, width - w + 1)),
                      int(random.integers(0, height - h + 1)), w, h))
    target = Target(label, parts)
    if features.rotated and len(parts) == 1 and random.random() < 0.5:
        target.angle = float(random.choice([30, 45, 90, 200.5, 330]))
        x, y, w, h = target.box
        if x < 0 or y < 0 or x + w > width or y + h > height:
            target.angle = 0
    return target


def draw_paths(random, features: Features) -> list[tuple[str, str]]:
    """Draw folders and names, many of them equal in several folders."""
    families = random.choice(len(FAMILIES), 4, replace=False)
    names = sum((FAMILIES[i] for i in families), [])
    folders = random.choice(FOLDERS, 3, replace=False).tolist()
    folders = folders if features.nested else ['']
    paths = [(folder, name) for folder in folders for name in names
             if not features.nested or random.random() < 0.6]
    if features.extensions and random.random() < 0.5:
        folder, name = paths[0]
        other = dict(jpg='png', png='jpg')[name[-3:]]
        paths.append((folder, f'{name[:-3]}{other}'))
    return [paths[i] for i in random.permutation(len(paths))]


def draw_truth(seed: int, features: Features) -> Truth:
    """Draw images with objects of two to four classes.

    A fifth of the images has no object, up to a fifth is missing; each class
    is in two images of each split at least.
    """
    random = np.random.default_rng(seed)
    labels = [label for label in random.permutation(LABELS).tolist()
              if features.slashes or '/' not in label]
    labels = labels[:random.integers(2, 5)]
    splits = ['train', 'val', 'test'][:random.integers(2, 4)]
    if not features.splits or (
            random.random() < 0.25 and not features.must_split):
        splits = ['']
    photos = []
    for folder, name in draw_paths(random, features):
        size = random.integers(24, 48, 2).tolist()
        pixels = random.integers(0, 255, (4, 4, 3), np.uint8)
        image = Image.fromarray(pixels).resize(size, Image.Resampling.NEAREST)
        photo = Photo(folder, name, np.asarray(image))
        if name.endswith('jpg') and random.random() < 0.3:
            photo.orientation = int(random.integers(2, 9))
        photos.append(photo)
    for i, photo in enumerate(photos):
        photo.split = splits[i % len(splits)]
        crowded = i < 2 * len(splits)
        if features.single:
            crowded = i < 4 * len(labels)
            label = labels[i // len(splits) % len(labels)]
            photo.targets = [Target(label, [(0, 0, *photo.size)])]
        elif crowded or not features.negatives or random.random() < 0.8:
            chosen = labels if crowded else random.choice(
                labels, random.integers(1, 4)).tolist()
            photo.targets = [draw_target(random, label, photo.size, features)
                             for label in chosen]
        photo.missing = bool(features.missing and not crowded
                             and random.random() < 0.15)
    paths = Counter(photo.path.lower() for photo in photos)
    for photo in photos:
        # Nothing tells img_1.txt's missing image from IMG_1.jpg.
        if not features.listed and paths[photo.path.lower()] > 1:
            photo.missing = False
    boxes_on = dict(upright=None, either=random.choice(['upright', 'stored']),
                    option='upright')[features.pixels]
    for photo in photos:
        photo.stored = boxes_on == 'stored'
    return Truth(photos, labels, boxes_on)
