# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read lists of images and their classes.

CSV files with or without a header, also Kaggle's ``id,label`` with names
without extension, and mmpretrain's lists of lines ``PATH LABEL``. Numbers as
labels count the lines of ``classes.txt`` from 0, if that is beside the list.
"""
import csv
import io
import os.path as osp
import re
from collections.abc import Mapping, Sequence

from ..errors import UserError
from .account import Kind
from .class_columns import (
    Table,
    choose_columns,
    has_extension,
    is_label_header,
)
from .files import (
    ExportFiles,
    reading,
    require_distinct,
    split_named,
)
from .lookup import ImageLookup
from .records import ListedExport, ListedImage

_CLASS_FILES = ('classes.txt', 'meta/classes.txt')


def read_class_list(path: str, lookup: ImageLookup) -> ListedExport:
    """Read a list.

    Raises:
        UserError: If it is empty, or its columns are not clear.
    """
    files = lookup.files
    table = _read_table(path, lookup)
    columns = choose_columns(table, lookup)
    names = _read_class_names(table.cells(columns.label), path, files)
    images = []
    for row in table.rows:
        label = row[columns.label]
        image = ListedImage(row[columns.image], path,
                            label=names.get(label, label))
        if columns.split >= 0:
            image.split = split_named(row[columns.split])
            if not image.split:
                files.account.note(
                    Kind.NOTICE, 'splits that are not train, val or test',
                    row[columns.split])
        if not image.name:
            files.account.skip(image, 'without a name', f"'{path}'")
        elif not label:
            files.account.skip(image, 'without a class')
        else:
            images.append(image)
    return ListedExport('Class list', images)


def _read_table(path: str, lookup: ImageLookup) -> Table:
    """Read the cells of a list, and whether it has a header."""
    text = lookup.files.read(path)
    with reading(path):
        rows = _split_cells(text)
    if not rows:
        raise UserError(f"'{path}' is empty: give a list of images and their "
                        'classes')
    widths = {len(row) for row in rows}
    if len(widths) > 1 or widths == {1}:
        odd = next(row for row in rows if len(row) in (1, max(widths)))
        raise UserError(f"'{path}': {odd} has {len(odd)} cells, others have "
                        f'{min(widths)}: write an image and its class in each '
                        'line, separated by a comma or a space')
    header = rows[0] if _is_header(rows, path, lookup) else ()
    return Table(path, header, rows[1:] if header else rows)


def _split_cells(text: str) -> list[list[str]]:
    """Split lines at the separator that gives all of them as many cells."""
    candidates = []
    for delimiter in '\t;,':
        rows = []
        for row in csv.reader(io.StringIO(text, newline=''),
                              delimiter=delimiter):
            if any(cell.strip() for cell in row):
                rows.append([cell.strip() for cell in row])
        candidates.append(rows)
    blanks = []
    for line in text.splitlines():
        if line.strip():
            blanks.append(line.strip().rsplit(maxsplit=1))
    candidates.append(blanks)
    for rows in candidates:
        widths = {len(row) for row in rows}
        if len(widths) == 1 and widths != {1}:
            return rows
    return max(candidates, key=lambda rows: len(rows[0]) if rows else 0)


def _is_header(rows: Sequence[Sequence[str]], path: str, lookup: ImageLookup
               ) -> bool:
    """Whether the first row names the columns.

    It does not if one of its cells is an image's name, or is found below it.
    """
    if len(rows) < 2:
        return False
    for i, cell in enumerate(rows[0]):
        below = {row[i] for row in rows[1:]}
        if has_extension(cell) or cell and cell in below:
            return False
    if any(is_label_header(cell) for cell in rows[0]):
        return True
    return not any(lookup.candidates(cell, path) for cell in rows[0])


def _read_class_names(labels: Sequence[str], path: str, files: ExportFiles
                      ) -> dict[str, str]:
    """Map numbers to the names of a file of classes, if there is one."""
    numbers = {}
    for label in labels:
        # pandas writes 1.0 if others are blank.
        if re.fullmatch(r'\d+(\.0)?', label):
            numbers[label] = int(float(label))
    place = _find_class_file(path)
    if not numbers or not place:
        return {}
    lines = files.numbered_lines(place)
    _reject_numbering(lines, place)
    others = {*labels} - numbers.keys() - {''}
    unknown = others or {*numbers.values()} - lines.keys()
    if unknown:
        raise UserError(f"'{path}' has the class {min(unknown)}, but "
                        f"'{place}' names only {len(lines)}, from 0 "
                        'on: correct one of them, or move it')
    names = {}
    for label, number in numbers.items():
        names[label] = lines[number]
    with reading(place):
        require_distinct({number: lines[number]
                          for number in numbers.values()})
    files.account.correct('class numbers that became names', place)
    for line in lines.values():
        if line not in names.values():
            files.account.note(Kind.SKIPPED_CLASS, 'without an image', line)
    return names


def _find_class_file(path: str) -> str:
    """Return the file of class names beside a list, or ''."""
    for name in _CLASS_FILES:
        place = osp.join(osp.dirname(path), name)
        if osp.isfile(place):
            return place
    return ''


def _reject_numbering(lines: Mapping[int, str], place: str) -> None:
    """Raise UserError if the text of lines numbers them from 1."""
    if all(re.match(rf'{number + 1}\W', line)
           for number, line in lines.items()):
        raise UserError(f"'{place}' numbers classes from 1, but its lines "
                        'count from 0: write names instead of numbers into '
                        'the list, or numbers from 0 into both')
