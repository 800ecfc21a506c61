# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The report of an import: all images and boxes, and what became of them."""
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..report import Table
from .account import Account
from .records import SPLITS, ListedImage


@dataclass
class Preparation:
    """What was prepared; as text, its title and tables.

    Attributes:
        config (str): The config to train with.
        title (str): Format and numbers.
        tables (list[Table]): Images and boxes, classes, the account.
        account (Account): Counts what was corrected and skipped.
    """
    config: str
    title: str
    tables: list[Table]
    account: Account

    def __str__(self) -> str:
        return '\n\n'.join([self.title, *(str(t) for t in self.tables)])


def title(format: str, number: int, classes: Sequence[str],
          splits: Collection[str]) -> str:
    """Describe an export in one line."""
    words = 'class' if len(classes) == 1 else 'classes'
    split = 'no split'
    if len(splits) > 1:
        given = [name for name in SPLITS if name in splits]
        split = f'already split into {", ".join(given)}'
    return f'{format}: {number} images, {len(classes)} {words}, {split}'


def tabulate_boxes(parts: Mapping[str, Sequence[ListedImage]],
                   classes: Sequence[str], account: Account) -> list[Table]:
    """Account for all images and boxes."""
    numbers, areas = Counter(), {name: [] for name in classes}
    for split, images in parts.items():
        for image in images:
            for box in image.boxes:
                numbers[split, box.label] += 1
                areas[box.label].append(box.bbox[2] * box.bbox[3])
    total = _total(parts, account)
    boxes, unlabeled = [], []
    for split, images in parts.items():
        boxes.append(sum(numbers[split, name] for name in classes))
        unlabeled.append(sum(not image.boxes for image in images))
    lost = account.skipped('boxes')
    total.rows.append(['boxes', sum(boxes) + lost, lost, *boxes])
    total.rows.append(['images without a box', sum(unlabeled), '',
                       *unlabeled])
    table = Table('Boxes, and how many are small (below 32x32 pixels), medium '
                  'or large (96x96 and above)',
                  ['class', *parts, 'small', 'medium', 'large'])
    for name in classes:
        sizes = np.digitize(np.sqrt(areas[name]), [32, 96])
        table.rows.append([name, *(numbers[split, name] for split in parts),
                           *np.bincount(sizes, minlength=3).tolist()])
    return [total, table, *_tabulate(account)]


def tabulate_classes(parts: Mapping[str, Sequence[ListedImage]],
                     classes: Sequence[str], account: Account
                     ) -> list[Table]:
    """Account for all images."""
    numbers = Counter()
    for split, images in parts.items():
        for image in images:
            numbers[split, image.label] += 1
    table = Table('Images of each class', ['class', *parts])
    for name in classes:
        table.rows.append([name, *(numbers[split, name] for split in parts)])
    return [_total(parts, account), table, *_tabulate(account)]


def _total(parts: Mapping[str, Sequence[ListedImage]], account: Account
           ) -> Table:
    numbers = [len(images) for images in parts.values()]
    lost = account.skipped('images')
    return Table('What was read', ['', 'in', 'skipped', *parts], [
        ['images', sum(numbers) + lost, lost, *numbers]])


def _tabulate(account: Account) -> list[Table]:
    """Tabulate the account, if it has entries."""
    table = Table('Corrected, skipped and chosen',
                  ['number', 'of', 'why', 'e.g.'])
    for (kind, reason), count in account.items():
        table.rows.append([count.number, kind.value, reason, count.example])
    return [table] if table.rows else []
