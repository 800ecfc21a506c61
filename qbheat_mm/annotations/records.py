# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What an export states: images, their boxes or class, and their split."""
from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
from msgspec import Struct, field

#: In the order of precedence, if an image is in several.
SPLITS = ('train', 'val', 'test')


class Box(Struct, gc=False, kw_only=True):
    """An object: its class and (x, y, width, height) in pixels from 0.

    Fields have the names of COCO in files. ``swapped`` tells that its corners
    were in the wrong order.
    """
    label: str | int | None = field(default=None, name='category_id')
    bbox: list[float] | None = None
    mask: list[list[float] | float] | dict[str, Any] | None = field(
        default=None, name='segmentation')
    crowd: bool | float | None = field(default=False, name='iscrowd')
    swapped: bool = False

    def surround(self, points: Sequence[float]) -> 'Box':
        """Take the box around points (x1, y1, x2, y2, ...)."""
        x, y = min(points[::2]), min(points[1::2])
        self.bbox = [x, y, max(points[::2]) - x, max(points[1::2]) - y]
        return self

    def surround_rotated(self, center: tuple[float, float],
                         size: tuple[float, float], degrees: float) -> 'Box':
        """Take the corners of a rotated box as mask, and the box around them.

        The angle is clockwise on the screen.
        """
        corners = cv2.boxPoints((center, size, degrees)).ravel().tolist()
        self.mask = [corners]
        return self.surround(corners)

    def rotate(self, degrees: float) -> 'Box':
        """Rotate the box about its center, clockwise on the screen."""
        x, y, w, h = self.bbox
        return self.surround_rotated((x + w / 2, y + h / 2), (w, h), degrees)


class ListedImage(Struct):
    """An image as the file ``source`` of an export describes it.

    Attributes:
        name (str): Its path or name, as written there.
        source (str): Path of that file.
        boxes (list[Box]): Its objects.
        label (str): Its class, if images are classified.
        split (str): ``'train'``, ``'val'``, ``'test'`` or ``''``.
        listed_size (tuple[int, int], optional): Width and height as written;
            (1, 1) if boxes are fractions of them.
        folder (str): Name of its folder, if that is written apart.
        file (str): Path, once it is found.
        size (tuple[int, int]): Width and height of the upright image, once
            it is opened.
        orientation (int): Its EXIF orientation, 1 (upright) to 8.
        hash (np.ndarray): Perceptual, (144,).
    """
    name: str
    source: str
    boxes: list[Box] = []
    label: str = ''
    split: str = ''
    listed_size: tuple[int, int] | None = None
    folder: str = ''
    file: str = ''
    size: tuple[int, int] = (0, 0)
    orientation: int = 1
    hash: Any = None

    def labels(self) -> list[str]:
        """The classes that training sees here, once for each object."""
        if self.label:
            return [self.label]
        return [box.label for box in self.boxes if not box.crowd]


class ListedExport(NamedTuple):
    """What a reader returns.

    Attributes:
        format (str): Its name, e.g. ``'Pascal VOC'``.
        images (list[ListedImage]): What it lists.
        classes (list[str], optional): Its classes, in their order; None if
            only its boxes name them.
        hashed_names (bool): Whether the tool puts a hash in front of names.
        upright (bool): Whether the tool is known to draw boxes on images as
            EXIF rotates them.
        stored_sizes (bool): Whether it writes sizes before that rotation.
        own_names (bool): Whether each image has a file of annotations, after
            which it may be named.
    """
    format: str
    images: list[ListedImage]
    classes: list[str] | None = None
    hashed_names: bool = False
    upright: bool = False
    stored_sizes: bool = False
    own_names: bool = False
