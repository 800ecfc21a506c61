# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The account of an import: what was put right and left out, and why."""
from dataclasses import dataclass

from ..errors import printable
from .records import ListedImage

#: Reasons that several readers give.
ROTATED = 'rotated boxes that became the box around their corners'
IN_TWO_SPLITS = 'images in two splits, used in the first of them'


@dataclass
class Count:
    """How often something happened, with its first example."""
    number: int
    example: str


class Account(dict):
    """Counts by kind, such as ``'boxes left out'``, and reason."""

    def note(self, kind: str, reason: str, example: object = '',
             number: int = 1) -> None:
        """Count an event."""
        if not number:
            return
        text = printable(str(example))
        self.setdefault((kind, reason), Count(0, text)).number += number

    def put_right(self, what: str, example: object = '',
                  number: int = 1) -> None:
        """Count what is strange but unambiguous."""
        self.note('put right', what, example, number)

    def leave_out(self, image: ListedImage, why: str,
                  example: object = '') -> None:
        """Count an image and its boxes that are not used."""
        self.note('images left out', why, example or image.name)
        self.note('boxes left out', 'of images that are left out',
                  image.name, len(image.boxes))

    def left_out(self, what: str) -> int:
        """Return the number of ``'images'`` or ``'boxes'`` left out."""
        total = 0
        for (kind, _), count in self.items():
            if kind == f'{what} left out':
                total += count.number
        return total

    def __str__(self) -> str:
        parts = []
        for (kind, reason), count in self.items():
            parts.append(f'{count.number} {kind} {reason}')
        return '; '.join(parts)
