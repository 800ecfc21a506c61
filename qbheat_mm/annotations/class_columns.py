# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which columns of a list are its images, classes and splits.

A column of images names a file in most rows. Numbers match files by accident:
an index of 27 is not ``27.png``. So full names beat names without extension,
and columns that name other images equally well are refused.
"""
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from enum import IntEnum
from statistics import median_low
from typing import NamedTuple

from ..datasets.images import EXTENSIONS
from ..errors import UserError
from .account import Kind
from .class_folders import is_mask
from .files import normalized, split_named
from .lookup import ImageLookup

_SAMPLE = 100
_LABEL = re.compile('class|class_?name|labels?|category|target|species|breed')
_SPLIT = re.compile('split|subset|set|partition|usage|phase')
#: A column with as many rows for each of its values holds no image names, but
#: sizes or folds; one of two columns may be classes with fewer images.
_ROWS_PER_VALUE, _ROWS_PER_CLASS = 5, 2


class Match(IntEnum):
    """How a cell names a file."""
    NONE = 0
    WITHOUT_EXTENSION = 1
    WITH_OTHER_EXTENSION = 2
    FULL_NAME = 3


class Table(NamedTuple):
    """The rows of a list; ``header`` is its first row or ()."""
    path: str
    header: Sequence[str]
    rows: list[list[str]]

    @property
    def columns(self) -> range:
        """The numbers of the columns."""
        return range(len(self.rows[0]))

    def cells(self, column: int) -> list[str]:
        """List the cells of a column below its header."""
        return [row[column] for row in self.rows]

    def has_header(self, column: int, words: re.Pattern) -> bool:
        """Whether the header of a column is such a word."""
        return bool(self.header) and bool(
            words.fullmatch(self.header[column].lower()))

    def describe(self, columns: Collection[int]) -> str:
        """Name columns and their first cells."""
        names = []
        for i in columns:
            name = repr(self.header[i]) if self.header else f'{i + 1}'
            names.append(f'{name} (e.g. {self.rows[0][i]!r})')
        return ' and '.join(names)


class Columns(NamedTuple):
    """Column numbers; ``split`` is -1 if the table has no splits."""
    image: int
    label: int
    split: int


def is_label_header(cell: str) -> bool:
    """Whether a cell is a usual title of a column of classes."""
    return bool(_LABEL.fullmatch(cell.lower()))


def has_extension(cell: str) -> bool:
    """Whether a cell is the full name of an image."""
    return cell.lower().endswith(EXTENSIONS)


def choose_columns(table: Table, lookup: ImageLookup) -> Columns:
    """Find the columns of images, of classes and of splits.

    Raises:
        UserError: If none or several can be one of them.
    """
    filled = [i for i in table.columns if any(table.cells(i))]
    split = _choose_split(table, filled)
    matches = {}
    for i in filled:
        if i != split:
            matches[i] = _match(table, i, lookup)
    image = _choose_image(table, matches, lookup)
    label = _choose_label(table, image, matches)
    _check_masks(table, image, label, matches)
    unused = sorted(matches.keys() - {image, label})
    if unused:
        _tell_unused(table, unused, split, lookup)
    return Columns(image, label, split)


def _sample(table: Table, column: int) -> list[str]:
    return table.cells(column)[::max(len(table.rows) // _SAMPLE, 1)]


def _match(table: Table, column: int, lookup: ImageLookup) -> Match:
    """How most cells of a column name a file, at least."""
    found = []
    for cell in _sample(table, column):
        files = lookup.candidates(cell, table.path)
        if not files:
            found.append(Match.NONE)
        elif normalized(cell).endswith(
                normalized(files[0].rpartition('/')[2])):
            found.append(Match.FULL_NAME)
        elif has_extension(cell):
            found.append(Match.WITH_OTHER_EXTENSION)
        else:
            found.append(Match.WITHOUT_EXTENSION)
    return median_low(found)


def _has_extensions(table: Table, column: int) -> bool:
    """Whether most cells are full names of images, and not URLs."""
    named = []
    for cell in _sample(table, column):
        named.append(has_extension(cell) and '://' not in cell)
    return bool(median_low(named))


def _repeats(table: Table, column: int, times: int) -> bool:
    """Whether each value is in that many rows, on average."""
    cells = table.cells(column)
    return len(cells) >= times * len(set(cells))


def _is_split(cell: str) -> bool:
    """Whether a cell is the name of a split, and not of a file."""
    return cell.replace(' ', '').isalpha() and split_named(cell) != ''


def _is_unique(table: Table, column: int) -> bool:
    """Whether no two cells are equal."""
    cells = table.cells(column)
    return len(set(cells)) == len(cells)


def _choose_split(table: Table, columns: Sequence[int]) -> int:
    """Find the column whose cells or header name splits; -1 if none does."""
    stated, titled = [], []
    for i in columns:
        if table.has_header(i, _LABEL):
            continue
        values = set(table.cells(i)) - {''}
        if len(columns) > 2 and all(_is_split(value) for value in values):
            stated.append(i)
        elif table.has_header(i, _SPLIT):
            titled.append(i)
    found = stated or titled
    if len(found) > 1:
        raise UserError(f"'{table.path}': the columns {table.describe(found)} "
                        'both name splits: keep one of them')
    return found[0] if found else -1


def _choose_image(table: Table, matches: dict[int, Match],
                  lookup: ImageLookup) -> int:
    """Find the column that names images best.

    Of columns that name the same files, that with the most of their folders.
    """
    rivals = _list_rivals(table, matches, lookup)
    if len(rivals) == 1:
        return rivals[0]
    rivals.sort(key=lambda i: _count_folders(table, i, lookup), reverse=True)
    for i in rivals:
        if _agrees(table, i, rivals, lookup):
            return i
    raise UserError(
        f"'{table.path}': the columns {table.describe(rivals)} may all name "
        'the images, but not the same ones: delete those that do not')


def _list_rivals(table: Table, matches: dict[int, Match], lookup: ImageLookup
                 ) -> list[int]:
    """List the columns that could just as well hold the images."""
    by_match = defaultdict(list)
    for i, match in matches.items():
        if not table.has_header(i, _LABEL):
            by_match[match].append(i)
    best = max(by_match, default=Match.NONE)
    if best == Match.NONE:
        raise _not_found(table, lookup)
    times = _ROWS_PER_CLASS if len(matches) == 2 else _ROWS_PER_VALUE
    rivals = []
    for i in by_match[best]:
        if not _repeats(table, i, times):
            rivals.append(i)
    rivals = rivals or by_match[best]
    if best < Match.FULL_NAME:
        # The images may be elsewhere.
        for i in by_match[Match.NONE]:
            if _has_extensions(table, i):
                rivals.append(i)
    return rivals


def _count_folders(table: Table, column: int, lookup: ImageLookup) -> int:
    """Count the folders of files that the cells state as they are."""
    total = 0
    for cell in _sample(table, column):
        for file in lookup.candidates(cell, table.path):
            if file.endswith(f'/{cell.lstrip("/")}'):
                total += cell.count('/')
    return total


def _agrees(table: Table, column: int, rivals: Sequence[int],
            lookup: ImageLookup) -> bool:
    """Whether a column names the files of all rivals, or fewer of them."""
    for row in table.rows:
        files = set(lookup.candidates(row[column], table.path))
        for other in rivals:
            if other == column or row[column].endswith(f'/{row[other]}'):
                continue
            possible = set(lookup.candidates(row[other], table.path))
            if files == possible:
                continue
            if not files or not files <= possible:
                return False
    return True


def _choose_label(table: Table, image: int, matches: dict[int, Match]) -> int:
    """Find the column of classes, by its header or as the only one left."""
    titled, others = [], []
    for i in sorted(matches.keys() - {image}):
        if table.has_header(i, _LABEL):
            titled.append(i)
        elif not _identifies(table, i, matches[i]):
            others.append(i)
    possible = titled or others
    if len(possible) == 1:
        return possible[0]
    problem = 'none may be classes'
    if possible:
        problem = f'{table.describe(possible)} may all be classes'
    raise UserError(
        f"'{table.path}' has the columns "
        f'{list(table.header or table.rows[0])}; images are in '
        f'{table.describe([image])}, and {problem}: keep one of image names '
        'and one of class names')


def _identifies(table: Table, column: int, match: Match) -> bool:
    """Whether cells are unique numbers or images, so not classes."""
    cells = table.cells(column)
    if _has_extensions(table, column):
        return True
    is_number = all(cell.isdecimal() for cell in cells)
    return _is_unique(table, column) and (is_number or match > Match.NONE)


def _check_masks(table: Table, image: int, label: int,
                 matches: dict[int, Match]) -> None:
    """Raise UserError if the names of masks are chosen, but others exist."""
    masks = [is_mask(cell) for cell in _sample(table, image)]
    if not median_low(masks):
        return
    others = []
    for i, match in matches.items():
        if i not in (image, label) and (
                match > Match.NONE or _has_extensions(table, i)
                or _is_unique(table, i)):
            others.append(i)
    if others:
        raise UserError(
            f"'{table.path}': the column {table.describe([image])} seems to "
            f'name masks, and {table.describe(others)} may name the images: '
            'delete the column of masks, and write the names of images in '
            'full')


def _tell_unused(table: Table, columns: Sequence[int], split: int,
                 lookup: ImageLookup) -> None:
    """Note the columns that are not read; refuse one that may be a split."""
    for i in columns:
        if table.header and split < 0 and split_named(table.header[i]):
            raise UserError(
                f"'{table.path}': the column {table.describe([i])} may state "
                "splits: delete it, or call it 'split' and write train, val "
                'or test')
    lookup.files.account.note(Kind.NOTICE, 'columns of the list are not used',
                              table.describe(columns), len(columns))


def _not_found(table: Table, lookup: ImageLookup) -> UserError:
    """Say which names were not found; they may have lost their zeros."""
    fix = 'keep one of image names, in its folder or else in --images DIR'
    padded = {}
    for file in lookup.files.images:
        stem = file.rpartition('/')[2].rpartition('.')[0]
        if stem.isdecimal():
            padded.setdefault(stem.lstrip('0'), file)
    for cell in table.rows[0]:
        if cell.isdecimal() and cell.lstrip('0') in padded:
            file = padded[cell.lstrip('0')]
            fix = (f'{cell!r} may have lost the zeros of {file!r}: write '
                   'names as the files have them (pandas: dtype=str)')
    return UserError(
        f"'{table.path}' has the columns "
        f'{list(table.header or table.rows[0])}, but none names files in '
        f"'{lookup.files.image_root}' in most rows, such as "
        f'{table.rows[0][:3]}: {fix}')
