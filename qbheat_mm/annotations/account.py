# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The account of an import: what was corrected and skipped, and why."""
from dataclasses import dataclass
from enum import Enum

from ..errors import printable
from .records import ListedImage

#: Reasons that several readers give.
ROTATED = 'rotated boxes that became the box around their corners'
IN_TWO_SPLITS = 'images in two splits, used in the first of them'


class Kind(str, Enum):
    """What happened, as reports say it."""
    CORRECTED = 'corrected'
    SKIPPED_IMAGE = 'images skipped'
    SKIPPED_BOX = 'boxes skipped'
    SKIPPED_CLASS = 'classes skipped'
    SKIPPED_FILE = 'files skipped'
    UNLABELED = 'images without a label file'
    VALIDATION = 'images chosen for validation'
    WARNING = 'warnings'
    NOTICE = 'notes'


@dataclass
class Count:
    """How often something happened, with its first example."""
    number: int
    example: str


class Account(dict):
    """Counts by :class:`Kind` and reason."""

    def note(self, kind: Kind, reason: str, example: object = '',
             number: int = 1) -> None:
        """Count an event."""
        if not number:
            return
        text = printable(str(example))
        self.setdefault((kind, reason), Count(0, text)).number += number

    def correct(self, what: str, example: object = '',
                number: int = 1) -> None:
        """Count what is strange but unambiguous."""
        self.note(Kind.CORRECTED, what, example, number)

    def skip(self, image: ListedImage, why: str,
             example: object = '') -> None:
        """Count an image and its boxes that are not used."""
        self.note(Kind.SKIPPED_IMAGE, why, example or image.name)
        self.note(Kind.SKIPPED_BOX, 'of skipped images',
                  image.name, len(image.boxes))

    def skipped(self, what: str) -> int:
        """Return the number of skipped ``'images'`` or ``'boxes'``."""
        total = 0
        for (kind, _), count in self.items():
            if kind == Kind(f'{what} skipped'):
                total += count.number
        return total

    def __str__(self) -> str:
        parts = []
        for (kind, reason), count in self.items():
            parts.append(f'{count.number} {kind.value} {reason}')
        return '; '.join(parts)
