# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The content of an export, and an account of what became of it."""
import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ..errors import UserError

_SPLITS = {'train': 'train', 'training': 'train', 'val': 'val',
           'valid': 'val', 'validation': 'val', 'test': 'test',
           'testing': 'test'}


class Box(msgspec.Struct, gc=False):
    """An object: its class and (x, y, width, height) in pixels from 0."""
    label: str
    bbox: list[float]
    segmentation: list | dict | None = None
    crowd: bool = False

    @classmethod
    def around(cls, label: str, polygons: list[list[float]], **more) -> 'Box':
        """Create the box around polygons of (x1, y1, x2, y2, ...)."""
        xs = [x for points in polygons for x in points[::2]]
        ys = [y for points in polygons for y in points[1::2]]
        return cls(label, corners(min(xs), min(ys), max(xs), max(ys)),
                   polygons, **more)


class Picture(msgspec.Struct):
    """An image.

    Attributes:
        file (str): Its path, or if it is missing its name in the export.
        boxes (list[Box]): Its objects.
        split (str): ``'train'``, ``'val'``, ``'test'`` or ``''``.
        size (tuple[int, int], optional): Width and height, if known.
        found (bool): Whether the file exists.
        fractions (bool): Whether coordinates are fractions of the size.
    """
    file: str
    boxes: list[Box]
    split: str = ''
    size: tuple[int, int] | None = None
    found: bool = True
    fractions: bool = False


@dataclass
class Account:
    """What was put right or left out, with numbers and examples."""
    lines: dict[tuple[str, str], list] = field(default_factory=dict)

    def note(self, kind: str, what: str, example: object = '',
             number: int = 1) -> None:
        """Count an event, e.g. of the kind ``'boxes left out'``."""
        if number:
            self.lines.setdefault((kind, what), [0, example])[0] += number

    def put_right(self, what: str, example: object = '',
                  number: int = 1) -> None:
        """Count what was strange but unambiguous."""
        self.note('put right', what, example, number)

    def total(self, kind: str) -> int:
        """Number of events of a kind."""
        return sum(number for (each, _), (number, _) in self.lines.items()
                   if each == kind)

    def rows(self) -> list[tuple[str, int, str, str]]:
        """Return kind, number, description and example of all events."""
        return [(kind, number, what, str(example))
                for (kind, what), (number, example) in self.lines.items()]


@dataclass
class Export:
    """The content of an export.

    Attributes:
        source (str): Tool and format.
        pictures (list[Picture]): Images with their boxes.
        classes (list[str]): Class names in the order of the export.
    """
    source: str
    pictures: list[Picture]
    classes: list[str]


def corners(x1: float, y1: float, x2: float, y2: float) -> list[float]:
    """Convert corners, in any order, to (x, y, width, height)."""
    return [min(x1, x2), min(y1, y2), abs(x2 - x1), abs(y2 - y1)]


def split_of(path: str) -> str:
    """Return the split that a path names, the last part first, or ''."""
    for part in reversed(Path(path.lower()).with_suffix('').parts):
        found = {_SPLITS[word] for word in re.split('[^a-z]+', part)
                 if word in _SPLITS}
        if len(found) == 1:
            return found.pop()
    return ''


def number(value: object, where: str, account: Account | None = None
           ) -> float:
    """Convert a number; count it in the account if it is text.

    Raises:
        UserError: If it is not a finite number.
    """
    try:
        found = float(value)
        if abs(found) < 1e9:
            if account and isinstance(value, str):
                account.put_right('numbers written as text', where)
            return found
    except (TypeError, ValueError):
        pass
    raise UserError(f'{where} has {value!r} instead of a number: correct it '
                    'in the annotation tool or in the file')
