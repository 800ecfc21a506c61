# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The annotations of a file as arrays."""
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from .columns import (
    ABSENT,
    Absent,
    columns,
    numbers,
    quadruples,
    rows_of,
    written,
)
from .structure import Categories, Images

_KEYS = ('id', 'image_id', 'category_id', 'bbox', 'area', 'iscrowd', 'ignore',
         'segmentation')


@dataclass
class Annotations:
    """Columns of the annotations; what cannot be read is NaN or -1.

    Attributes:
        items (list): (N,), as in the file.
        records (list[dict]): (N,), empty where the file has no object.
        values (dict[str, Sequence]): (N,) each, as in the file.
        images (Images): Of the file.
        image (np.ndarray): (N,), row of the image.
        category (np.ndarray): (N,), row of the category.
        boxes (np.ndarray): (N, 4), x, y, width and height in pixels.
        sizes (np.ndarray): (N, 2), width and height of the image.
        areas (np.ndarray): (N,), in pixels².
        crowd (np.ndarray): (N,), 0, 1, or -1.
        ignored (np.ndarray): (N,), bool, what ``ignore`` says.
    """
    items: list
    records: list[dict]
    values: dict[str, Sequence]
    images: Images
    image: np.ndarray
    category: np.ndarray
    boxes: np.ndarray
    sizes: np.ndarray
    areas: np.ndarray
    crowd: np.ndarray
    ignored: np.ndarray

    def __len__(self) -> int:
        return len(self.records)

    @property
    def farthest(self) -> np.ndarray:
        """(N, 2), right and lower end of the boxes, in pixels."""
        return self.boxes[:, :2] + self.boxes[:, 2:]

    def example(self, row: int, key: str) -> str:
        """One annotation and one of its values, for a message."""
        if not isinstance(self.items[row], dict):
            return f'the {row + 1}. of the list: {written(self.items[row])}'
        record = self.records[row]
        name = f'the {row + 1}. of the list'
        if 'id' in record:
            name = f'annotation id {written(record["id"])}'
        value = written(record.get(key, ABSENT))
        place = ''
        if self.image[row] >= 0:
            image = self.images.records[self.image[row]]
            width, height = self.sizes[row]
            place = (f' of image id {written(image["id"])}, '
                     f'{written(image["file_name"])} of '
                     f'{width:.0f}x{height:.0f}')
        return f'as {name}{place}: {key}={value}'


def read_rows(content: dict, images: Images,
              categories: Categories) -> Annotations:
    """Bring the annotations of a file into columns."""
    items = content['annotations']
    records = items
    if set(map(type, items)) - {dict}:
        records = [item if isinstance(item, dict) else {} for item in items]
    values = dict(zip(_KEYS, columns(records, *_KEYS)))
    image = rows_of(values['image_id'], images.ids)
    sizes = images.sizes[image]
    sizes[image < 0] = np.nan
    return Annotations(
        items=items,
        records=records,
        values=values,
        images=images,
        image=image,
        category=rows_of(values['category_id'], categories.ids),
        boxes=quadruples(values['bbox']),
        sizes=sizes,
        areas=numbers(values['area']),
        crowd=_crowds(values['iscrowd']),
        ignored=_truths(values['ignore']))


#: What ``iscrowd`` may be, and what that means.
CROWD = {ABSENT: 0, None: 0, '0': 0, '1': 1, 0: 0, 1: 1, '': 0}


def _crowds(values: Sequence) -> np.ndarray:
    """(N,), int8: 0, 1, or -1 for what says neither."""
    try:
        found = list(map(CROWD.get, values, repeat(-1)))
    except TypeError:  # a list or an object
        found = [-1 if isinstance(value, list | dict) else
                 CROWD.get(value, -1) for value in values]
    return np.array(found, dtype=np.int8)


def _truths(values: Sequence) -> np.ndarray:
    """(N,), bool: whether a value is there and not empty, 0 or false."""
    if set(map(type, values)) <= {Absent}:
        return np.zeros(len(values), bool)
    return np.fromiter(map(bool, values), bool, len(values))
