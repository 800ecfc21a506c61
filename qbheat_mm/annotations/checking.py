# Copyright (c) QB-Heat MM authors. All rights reserved.
"""All checks of an annotation file, in order."""
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .boxes import (
    check_areas,
    check_boxes,
    check_turns,
    check_what_is_left,
    mend_boxes,
)
from .columns import no_collection
from .patterns import check_patterns, check_places
from .report import KEPT, STOPS, Report
from .rows import Annotations, read_rows
from .structure import (
    Categories,
    Images,
    check_categories,
    check_classes,
    check_images,
    check_lists,
)

#: Share of crowds that is told; in COCO it is one in a hundred.
_MANY_CROWDS = 0.2


@dataclass
class Checked:
    """An annotation file that was checked.

    Attributes:
        report (Report): What was found.
        content (dict): Of the file, mended and without the boxes that
            cannot be read. Not to be used where the report stops.
        images (Images, optional): None where they cannot be used.
        categories (Categories, optional): None where they cannot be used.
    """
    report: Report
    content: dict
    images: Images | None = None
    categories: Categories | None = None


def check_annotations(content: dict,
                      name: str,
                      classes: Sequence[str] | None = None,
                      allow_subset: bool = False,
                      unlabelled: bool = False) -> Checked:
    """Check the content of an annotation file and mend what can be mended.

    Args:
        content (dict): As read; changed in place.
        name (str): The file, for messages.
        classes (Sequence[str], optional): Of the data set, which the
            categories must be. Defaults to whatever the file holds.
        allow_subset (bool): Whether boxes of other categories are left out
            on purpose. Defaults to False.
        unlabelled (bool): Whether the file may hold no boxes, as a test set
            whose predictions are to be submitted. Defaults to False.
    """
    report = Report(name)
    checked = Checked(report, content)
    if not check_lists(content, report, unlabelled):
        return checked
    checked.images = check_images(content, report)
    checked.categories = check_categories(content, report)
    if checked.images is None or checked.categories is None:
        return checked
    if classes is not None:
        check_classes(checked.categories.names, classes, allow_subset, report)
    if report.stops:
        return checked
    with no_collection():
        _check_rows(checked, classes, unlabelled)
    return checked


def _check_rows(checked: Checked, classes: Sequence[str] | None,
                unlabelled: bool) -> None:
    """Check the annotations."""
    report, content = checked.report, checked.content
    rows = read_rows(content, checked.images, checked.categories)
    wanted = _wanted(rows, checked.categories, classes)
    if not wanted.any() and not unlabelled:
        report.add(STOPS, f'no box is left of {len(rows)} annotations',
                   way_out='give a file with boxes of the classes')
        return
    check_patterns(rows, wanted, checked.categories, report)
    usable = check_boxes(rows, checked.images, checked.categories, wanted,
                         report)
    check_what_is_left(rows, usable, wanted, report)
    check_places(rows, usable.trained, report)
    check_areas(rows, usable.trained, report)
    check_turns(rows, usable.trained, report)
    mend_boxes(content, rows, usable.readable, report)
    _summarise(rows, checked, wanted, usable.trained, classes)


def _wanted(rows: Annotations, categories: Categories,
            classes: Sequence[str] | None) -> np.ndarray:
    """(N,), bool: boxes that are not of a category left out on purpose."""
    if classes is None:
        return np.ones(len(rows), bool)
    chosen = [name in classes for name in categories.names]
    return np.array(chosen + [True])[rows.category]


def _summarise(rows: Annotations, checked: Checked, wanted: np.ndarray,
               trained: np.ndarray, classes: Sequence[str] | None) -> None:
    """Count what the set holds."""
    report, categories = checked.report, checked.categories
    report.boxes, report.kept = int(wanted.sum()), int(trained.sum())
    crowd = trained & (rows.crowd == 1)
    each = np.bincount(rows.category[trained & ~crowd],
                       minlength=len(categories.names))
    chosen = set(categories.names if classes is None else classes)
    report.per_class = {name: int(number) for name, number
                        in zip(categories.names, each) if name in chosen}
    images = len(checked.images.records)
    empty = images - np.count_nonzero(np.bincount(rows.image[trained]))
    crowds = int(crowd.sum())
    report.summary = (f'{images} images, {empty} of them without boxes; '
                      f'{report.kept} of {report.boxes} boxes, {crowds} of '
                      f'them crowds; {len(report.per_class)} classes')
    if crowds > _MANY_CROWDS * report.kept:
        report.add(KEPT, 'boxes are crowds, which are not learned: write '
                   'iscrowd=0 for single objects', crowds, report.kept,
                   rows.example(int(np.flatnonzero(crowd)[0]), 'iscrowd'))
    absent = [name for name, number in report.per_class.items() if not number]
    if absent and report.kept:
        report.add(KEPT, 'classes have no box that can be used', len(absent),
                   len(report.per_class), f'as {absent[0]!r}')
