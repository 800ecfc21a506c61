# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The frame of an annotation file: its lists, images and categories."""
import posixpath
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .columns import ABSENT, column, is_id, is_number, numbers, written
from .reading import kind_of
from .report import KEPT, MENDED, STOPS, Report

_LISTS = ('images', 'annotations', 'categories')


@dataclass
class Images:
    """The images of a file.

    Attributes:
        records (list[dict]): (M,), as in the file, each once.
        ids (dict): The row of each id.
        sizes (np.ndarray): (M, 2), width and height in pixels.
    """
    records: list[dict]
    ids: dict
    sizes: np.ndarray


@dataclass
class Categories:
    """The categories of a file.

    Attributes:
        names (list[str]): In the order of the file.
        ids (dict): The row of each id.
    """
    names: list[str]
    ids: dict


def check_lists(content: dict, report: Report, unlabelled: bool) -> bool:
    """Whether the three lists are there.

    Args:
        content (dict): Of the file.
        report (Report): Gets what is wrong.
        unlabelled (bool): Whether ``annotations`` may be absent.
    """
    for key in _LISTS:
        value = content.get(key, ABSENT)
        if key == 'annotations' and unlabelled and value is ABSENT:
            content[key] = []
        elif value is ABSENT:
            keys = ', '.join(written(name) for name in list(content)[:6])
            report.add(STOPS, f"the list '{key}' is absent",
                       example=f'the file holds {keys or "nothing"}',
                       way_out="give a file in COCO's format, with images, "
                       'annotations and categories')
        elif not isinstance(value, list):
            report.add(STOPS, f"the list '{key}' is {kind_of(value)}",
                       way_out='make it a list of objects')
        elif not value and key != 'annotations':
            report.add(STOPS, f"the list '{key}' is empty",
                       way_out='give a file that holds some')
    return not report.stops


def check_images(content: dict, report: Report) -> Images | None:
    """The images, or None if some cannot be used."""
    records = content['images']
    wrong = _Wrong('images', records, report)
    if wrong.no_objects():
        return None
    wrong.values('id', is_id, 'give each image a number of its own')
    wrong.values('file_name', _is_name, "write the file's name")
    for side in ('width', 'height'):
        wrong.values(side, lambda value: is_number(value) and value >= 1,
                     "write the picture's size in pixels")
    if report.stops:
        return None
    records = _without_repetitions(records, report)
    wrong = _Wrong('images', records, report)
    wrong.repeated('id', 'give each image an id of its own, and its boxes')
    texts = [isinstance(record['id'], str) for record in records]
    if any(texts) and not all(texts):
        report.add(STOPS, 'images have an id that is text, and others a '
                   'number, which COCO cannot sort', sum(texts), len(records),
                   f'as {records[texts.index(True)]["id"]!r}',
                   'write numbers, also in the annotations')
    if report.stops:
        return None
    _check_file_names(records, report)
    sizes = np.stack([
        numbers(column(records, side)) for side in ('width', 'height')
    ], axis=1)
    content['images'] = records
    ids = {record['id']: row for row, record in enumerate(records)}
    return Images(records, ids, sizes)


def check_categories(content: dict, report: Report) -> Categories | None:
    """The categories, or None if some cannot be used."""
    records = content['categories']
    wrong = _Wrong('categories', records, report)
    if wrong.no_objects():
        return None
    wrong.values('id', _is_number_id, 'write a whole number, without quotes, '
                 'also in the annotations')
    wrong.values('name', _is_name, "write the class's name")
    if not report.stops:
        wrong.repeated('id', 'give each category a number of its own, and '
                       'its boxes')
        wrong.repeated('name', 'join the two, or give each a name of its own')
    if report.stops:
        return None
    _without_fractions(records, report)
    names = column(records, 'name')
    ids = {record['id']: row for row, record in enumerate(records)}
    return Categories(names, ids)


def check_classes(names: Sequence[str], classes: Sequence[str],
                  allow_subset: bool, report: Report) -> None:
    """Compare the categories with the classes of a data set.

    mmdet leaves out boxes of other categories, and numbers labels in the
    order of the file; ours in that of the classes.

    Args:
        names (Sequence[str]): Of the categories, in the order of the file.
        classes (Sequence[str]): Of the data set.
        allow_subset (bool): Whether other categories are left out on purpose.
        report (Report): Gets what differs.
    """
    if isinstance(classes, str):
        report.add(
            STOPS, f'metainfo.classes={classes!r} of the dataset is one text '
            'and no list', way_out=f'write ({classes!r}, ) with a comma for '
            'a single class, or a file with a name in each line')
        return
    classes = list(classes)
    found = [name for name in names if name in classes or not allow_subset]
    if found == classes:
        return
    if sorted(found) == sorted(classes):
        report.add(MENDED, 'the categories stand in another order than '
                   'metainfo.classes, which the labels follow', example=
                   f'the file has {found}; the classes are {classes}')
        return
    if sorted(map(_composed, found)) == sorted(map(_composed, classes)):
        # macOS writes letters and their marks one after the other
        report.add(STOPS, 'the categories and the classes look the same and '
                   'are written with other code points', example=
                   f'the file has {ascii(found)}; the classes are '
                   f'{ascii(classes)}', way_out='write both alike')
        return
    way_out = ("set metainfo=dict(classes=...) of the dataset to the "
               "file's categories, and num_classes of the head to their "
               'number')
    if set(classes) < set(names):
        way_out += ', or allow_subset=True to leave the others out'
    report.add(STOPS, 'the categories are not the classes of the dataset',
               example=f'the file has {len(names)}, {list(names)}; the '
               f'classes are {len(classes)}, {classes}', way_out=way_out)


def _composed(name) -> str:
    return unicodedata.normalize('NFC', str(name))


def _is_name(value) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_number_id(value) -> bool:
    return is_id(value) and not isinstance(value, str)


class _Wrong:
    """Adds what is wrong with a list's records to a report."""

    def __init__(self, key: str, records: Sequence, report: Report) -> None:
        self.key, self.records, self.report = key, records, report

    def no_objects(self) -> bool:
        """Records that are no objects."""
        wrong = [i for i, record in enumerate(self.records)
                 if not isinstance(record, dict)]
        if wrong:
            self._add(wrong, 'are no objects',
                      f'the first is {written(self.records[wrong[0]])}',
                      'write each as an object, in braces')
        return bool(wrong)

    def values(self, key: str, is_right: Callable, way_out: str) -> None:
        """Records whose value of ``key`` is absent or not right."""
        values = column(self.records, key)
        wrong = [i for i, value in enumerate(values) if not is_right(value)]
        absent = [i for i in wrong if values[i] is ABSENT]
        self._add(absent, f'have no {key}', self._place(absent), way_out)
        wrong = [i for i in wrong if values[i] is not ABSENT]
        if wrong:
            self._add(wrong, f'have a {key} that is none',
                      f'{self._place(wrong)}: {key}='
                      f'{written(values[wrong[0]])}', way_out)

    def repeated(self, key: str, way_out: str) -> None:
        """Records that share their value of ``key`` with another."""
        first, again = {}, []
        for i, value in enumerate(column(self.records, key)):
            if first.setdefault(value, i) != i:
                again.append((first[value], i))
        if not again:
            return
        places = ' and '.join(self._name(i) for i in again[0])
        value = written(self.records[again[0][1]][key])
        self._add([i for _, i in again], f'have the {key} of another',
                  f'{key} {value} is that of {places}', way_out)

    def _place(self, rows: list[int]) -> str:
        return f'as {self._name(rows[0])}' if rows else ''

    def _name(self, row: int) -> str:
        record = self.records[row]
        name = record.get('file_name', record.get('name', ABSENT))
        name = '' if name is ABSENT else f', {written(name)}'
        return f'the {row + 1}. of the list{name}'

    def _add(self, wrong: list, what: str, example: str,
             way_out: str) -> None:
        self.report.add(STOPS, f'{self.key} {what}', len(wrong),
                        len(self.records), example, way_out)


def _without_fractions(records: list[dict], report: Report) -> None:
    """Ids as 1.0, which pandas writes and COCO's evaluation cannot find."""
    floats = [record for record in records if isinstance(record['id'], float)]
    if not floats:
        return
    report.add(MENDED, 'categories have an id with a decimal point, which is '
               'read as a whole number', len(floats), len(records),
               f'as {floats[0]["id"]}')
    for record in floats:
        record['id'] = int(record['id'])


def _without_repetitions(records: list[dict], report: Report) -> list[dict]:
    """Leave out records that say the same as one before."""
    first, again = {}, []
    for i, record in enumerate(records):
        j = first.setdefault(record['id'], i)
        if j != i and records[j] == record:
            again.append(i)
    if not again:
        return records
    report.add(MENDED, 'images are listed twice, with the same values, and '
               'taken once', len(again), len(records),
               f'as {written(records[again[0]]["file_name"])}')
    left_out = set(again)
    return [record for i, record in enumerate(records) if i not in left_out]


def _check_file_names(records: list[dict], report: Report) -> None:
    """Files that are listed several times."""
    names = [posixpath.normpath(name)
             for name in column(records, 'file_name')]
    if len(set(names)) == len(names):
        return
    seen = set()
    again = [name for name in names if name in seen or seen.add(name)]
    report.add(KEPT, 'images have the file_name of another: each is trained '
               'on with its own boxes only, the other\'s objects are '
               'background', len(again), len(records),
               f'as {written(again[0])}',
               'give both the boxes of the picture, under one id')
