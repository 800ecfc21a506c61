# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Faults that all boxes of a file share: another unit, another order."""
import numpy as np

from .columns import written
from .report import KEPT, STOPS, Report
from .rows import Annotations
from .structure import Categories

# Boxes drawn by hand reach a little past the border.
_SLACK_SHARE, _SLACK_PIXELS = 0.02, 1.
# So many boxes say something about all.
_MANY = 30


def check_patterns(rows: Annotations, wanted: np.ndarray,
                   categories: Categories, report: Report) -> None:
    """Stop if the boxes are meant in another way than COCO's.

    Args:
        rows (Annotations): N annotations.
        wanted (np.ndarray): (N,), bool: not left out on purpose.
        categories (Categories): Of the file.
        report (Report): Gets what is wrong.
    """
    _check_numbering(rows, categories, report)
    seen = np.flatnonzero(
        wanted & np.isfinite(rows.boxes).all(axis=1) & (rows.image >= 0))
    if not len(seen):
        return
    if not (_shares(rows, seen, report) or _corners(rows, seen, report)):
        _scale(rows, seen, report)


def _check_numbering(rows: Annotations, categories: Categories,
                     report: Report) -> None:
    """``category_id`` counted from 0 or 1 where the categories are not."""
    if not (rows.category < 0).any():
        return
    used = {record.get('category_id') for record in rows.records
            if type(record.get('category_id')) is int}
    known = set(categories.ids)
    number = len(known)
    numberings = (set(range(number)), set(range(1, number + 1)),
                  {each - 1 for each in known}, {each + 1 for each in known})
    if used - known and any(used <= each for each in numberings):
        report.add(
            STOPS, 'category_ids of the boxes are of no category and the '
            'others may be of the wrong one, as if counted in another way: '
            f'boxes use {_some(used)} and the categories have '
            f'{_some(known)}', len(used - known), len(used),
            way_out='number both alike')


def _some(ids: set) -> str:
    return written(sorted(ids))


def _past(rows: Annotations, seen: np.ndarray) -> np.ndarray:
    """Boxes that reach past the border by more than a slip."""
    sizes = rows.sizes[seen]
    slack = _SLACK_SHARE * sizes + _SLACK_PIXELS
    return ((rows.farthest[seen] > sizes + slack)
            | (rows.boxes[seen, :2] < -slack)).any(axis=1)


def _shares(rows: Annotations, seen: np.ndarray, report: Report) -> bool:
    """Coordinates divided by the image's size."""
    boxes, sizes = rows.boxes[seen], rows.sizes[seen]
    share = (boxes >= 0).all(axis=1) & (boxes <= 1).all(axis=1) & (
        sizes > 2).all(axis=1)
    if 2 * share.sum() <= len(seen):
        return False
    report.add(STOPS, 'boxes look like shares of the image',
               int(share.sum()), len(seen),
               rows.example(seen[share.argmax()], 'bbox'),
               'write x, y, width and height in pixels')
    return True


def _corners(rows: Annotations, seen: np.ndarray, report: Report) -> bool:
    """x1, y1, x2, y2 instead of x, y, width and height."""
    boxes, sizes, areas = rows.boxes[seen], rows.sizes[seen], rows.areas[seen]
    first, second = boxes[:, :2], boxes[:, 2:]
    ordered = ((second > first) & (second <= sizes + 1)).all(axis=1)
    if ordered.mean() < 0.95:
        return False
    past = _past(rows, seen)
    with np.errstate(invalid='ignore', over='ignore'):
        between = (second - first).prod(axis=1)
        said = np.isclose(areas, between, rtol=1e-3) & ~np.isclose(
            areas, second.prod(axis=1), rtol=1e-3)
    if past.mean() < 0.2 and said.mean() < 0.95:
        return False
    row = seen[past.argmax() if past.any() else said.argmax()]
    report.add(STOPS, 'boxes look like corners, x1, y1, x2, y2', len(seen),
               len(seen), rows.example(row, 'bbox'),
               'write x, y, width and height')
    return True


def _scale(rows: Annotations, seen: np.ndarray, report: Report) -> None:
    """Boxes of pictures of another size than the file says."""
    past = _past(rows, seen)
    if 3 * past.sum() > len(seen):
        report.add(
            STOPS, 'boxes reach past their image, as if annotated on a '
            'larger picture', int(past.sum()), len(seen),
            rows.example(seen[past.argmax()], 'bbox'),
            "write boxes and the image's width and height in the same pixels")


def check_places(rows: Annotations, trained: np.ndarray,
                 report: Report) -> None:
    """Tell of boxes that lie oddly in their image and are used all the same.

    Args:
        rows (Annotations): N annotations.
        trained (np.ndarray): (N,), bool.
        report (Report): Gets what is odd.
    """
    seen = np.flatnonzero(trained)
    if not len(seen):
        return
    past = _past(rows, seen)
    if past.any():
        report.add(KEPT, 'boxes reach past the border of their image, where '
                   'training cuts them', int(past.sum()), len(seen),
                   rows.example(seen[past.argmax()], 'bbox'))
    again = _again(rows, seen)
    if len(again):
        report.add(KEPT, 'boxes are those of another of the same category and '
                   'image: the object counts several times, in training and '
                   'as missed in evaluation', len(again), len(seen),
                   rows.example(again[0], 'bbox'), 'write each object once')
    reach = rows.farthest[seen] / rows.sizes[seen]
    if len(seen) >= _MANY and (reach.max(axis=0) < 0.6).all():
        report.add(KEPT, 'boxes lie in the upper left part of their image, '
                   'as if annotated on a smaller picture', len(seen),
                   len(seen), rows.example(seen[reach.sum(1).argmax()],
                                           'bbox'))


def _again(rows: Annotations, seen: np.ndarray) -> np.ndarray:
    """Boxes that stand in the file before, with the same category."""
    values = np.column_stack(
        [rows.image[seen], rows.category[seen], rows.boxes[seen]])
    # one value a row: sorted many times faster than rows are
    keys = np.ascontiguousarray(values).view(
        np.dtype((np.void, values.dtype.itemsize * values.shape[1]))).ravel()
    first = np.unique(keys, return_index=True)[1]
    return np.delete(seen, first)
