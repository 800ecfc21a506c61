# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which boxes are left out, and why; which are mended."""
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .columns import ABSENT, is_id, is_number
from .report import DROPPED, KEPT, MENDED, STOPS, Report
from .rows import Annotations
from .structure import Categories, Images

# A box that reaches farther beyond the image than so many times its size
# holds no coordinates.
_HUGE = 10.


@dataclass
class Usable:
    """What becomes of the boxes of a file.

    Attributes:
        readable (np.ndarray): (N,), bool: the others are taken out of the
            file's content, for training and for evaluation.
        trained (np.ndarray): (N,), bool: those that mmdet trains on, too.
            COCO's evaluation also counts the rest of the readable ones.
    """
    readable: np.ndarray
    trained: np.ndarray


def check_boxes(rows: Annotations, images: Images, categories: Categories,
                wanted: np.ndarray, report: Report) -> Usable:
    """Count the boxes that cannot be used, each for its first reason.

    Args:
        rows (Annotations): N annotations.
        images (Images): Of the file.
        categories (Categories): Of the file.
        wanted (np.ndarray): (N,), bool: not of a category left out on
            purpose.
        report (Report): Gets the reasons.
    """
    reasons = _Reasons(rows, wanted, report)
    _check_records(reasons)
    _check_ids(reasons, 'image_id', images.ids, rows.image)
    _check_ids(reasons, 'category_id', categories.ids, rows.category)
    _check_values(reasons)
    readable = ~reasons.claimed
    _check_training(reasons)
    return Usable(readable, readable & ~reasons.claimed)


class _Reasons:
    """Adds reasons to a report; a box has the first that fits."""

    def __init__(self, rows: Annotations, wanted: np.ndarray,
                 report: Report) -> None:
        self.rows, self.report = rows, report
        self.claimed = ~wanted
        self.total = int(wanted.sum())

    def claim(self, mask: np.ndarray, key: str, what: str) -> None:
        """Leave out the boxes of ``mask`` that have no reason yet."""
        found = np.flatnonzero(mask & ~self.claimed)
        if not len(found):
            return
        self.claimed[found] = True
        self.report.add(DROPPED, f'boxes {what}', len(found), self.total,
                        self.rows.example(found[0], key))


def _check_records(reasons: _Reasons) -> None:
    rows = reasons.rows
    if rows.items is not rows.records:
        objects = [isinstance(item, dict) for item in rows.items]
        reasons.claim(~np.array(objects), 'id', 'are no objects')


def _check_ids(reasons: _Reasons, key: str, known: dict,
               found: np.ndarray) -> None:
    """Boxes of which the image or the category is not known."""
    lost = np.flatnonzero((found < 0) & ~reasons.claimed)
    if not len(lost):
        return
    of = 'image' if key == 'image_id' else 'category'
    a = 'an' if key == 'image_id' else 'a'
    whats = {
        'absent': f'have no {key}',
        'quoted': f'have {a} {key} that is text or a number where the id of '
        f'the {of} is the other',
        'none': f'have {a} {key} that is no id',
        'unknown': f'are of an unknown {of}',
    }
    masks = {kind: np.zeros(len(found), bool) for kind in whats}
    texts = {str(each) for each in known}
    for row in lost:
        value = reasons.rows.records[row].get(key, ABSENT)
        masks[_kind(value, texts)][row] = True
    for kind, what in whats.items():
        reasons.claim(masks[kind], key, what)


def _kind(value, texts: set[str]) -> str:
    """Why an id is not known."""
    if value is ABSENT:
        return 'absent'
    if not is_id(value):
        return 'none'
    return 'quoted' if str(value).strip() in texts else 'unknown'


def _check_values(reasons: _Reasons) -> None:
    """Boxes that are none, for training and evaluation alike."""
    rows = reasons.rows
    x, y, width, height = rows.boxes.T
    right, lower = rows.farthest.T
    image_width, image_height = rows.sizes.T
    with np.errstate(invalid='ignore', over='ignore'):
        huge = np.abs(rows.boxes).max(axis=1, initial=0) > _HUGE * np.maximum(
            image_width, image_height)
        outside = (np.minimum(right, image_width) <= np.maximum(x, 0)) | (
            np.minimum(lower, image_height) <= np.maximum(y, 0))
        negative = (width < 0) | (height < 0)
    reasons.claim(np.isnan(x), 'bbox', 'are not four finite numbers')
    reasons.claim(rows.crowd < 0, 'iscrowd', 'have an iscrowd that is '
                  'neither 0 nor 1')
    reasons.claim(negative, 'bbox', 'have a negative width or height')
    reasons.claim(huge, 'bbox', 'reach farther than 10 times the size of '
                  'their image')
    sized = (width > 0) & (height > 0)
    reasons.claim(outside & sized, 'bbox', 'are outside of their image')


def _check_training(reasons: _Reasons) -> None:
    """Boxes that mmdet does not train on; COCO's evaluation counts them."""
    rows = reasons.rows
    width, height = rows.boxes[:, 2:].T
    share = (rows.boxes >= 0).all(axis=1) & (rows.boxes <= 1).all(axis=1)
    thin = (width < 1) | (height < 1)
    reasons.claim((width == 0) | (height == 0), 'bbox',
                  'have no width or no height')
    reasons.claim(thin & share, 'bbox', 'look like shares of the image, '
                  'COCO\'s boxes are in pixels')
    reasons.claim(thin, 'bbox', 'are thinner than a pixel')
    reasons.claim(rows.ignored, 'ignore', 'say that they are to be ignored')


def mend_boxes(content: dict, rows: Annotations, readable: np.ndarray,
               report: Report) -> None:
    """Take unreadable annotations out of a file's content; mend the rest.

    Args:
        content (dict): Of the file; changed in place.
        rows (Annotations): N annotations.
        readable (np.ndarray): (N,), bool.
        report (Report): Gets what is mended.
    """
    if not readable.all():
        content['annotations'] = [
            rows.items[row] for row in np.flatnonzero(readable)]
    _mend_crowds(rows, readable, report)
    _mend_areas(rows, readable, report)
    _mend_ids(content['annotations'], rows.values['id'], readable, report)


def _mend_crowds(rows: Annotations, readable: np.ndarray,
                 report: Report) -> None:
    values = rows.values['iscrowd']
    if set(map(type, values)) <= {int}:
        return
    wrong = [row for row in np.flatnonzero(readable)
             if not isinstance(values[row], int)]
    if not wrong:
        return
    example = rows.example(wrong[0], 'iscrowd')
    for row in wrong:
        rows.records[row]['iscrowd'] = int(rows.crowd[row])
    report.add(MENDED, 'boxes have no iscrowd, or one in quotes, which is '
               'taken as 0 unless it says 1', len(wrong), int(readable.sum()),
               example)


def _mend_areas(rows: Annotations, readable: np.ndarray,
                report: Report) -> None:
    """mmdet leaves out what has an area of 0, and COCO needs one."""
    box_areas = rows.boxes[:, 2] * rows.boxes[:, 3]
    with np.errstate(invalid='ignore'):
        wrong = readable & ~(rows.areas > 0) & (box_areas > 0)
        # Of boxes without width COCO has some: they are nobody's to mend.
        flat = readable & np.isnan(rows.areas) & ~(box_areas > 0)
    found = np.flatnonzero(wrong | flat)
    if not len(found):
        return
    example = rows.example(found[0], 'area')
    for row in found:
        rows.records[row]['area'] = float(box_areas[row])
    report.add(MENDED, 'boxes have no area, or one that is not above 0, '
               'which is taken from width and height', len(found),
               int(readable.sum()), example)


def _mend_ids(records: list[dict], ids: Sequence, readable: np.ndarray,
              report: Report) -> None:
    """Number annotations that have not each a number above 0.

    COCO's evaluation takes an id of 0 for 'found nothing', and of several
    annotations with one id it keeps the last.
    """
    if not readable.all():
        ids = [ids[row] for row in np.flatnonzero(readable)]
    if set(map(type, ids)) - {int}:
        ids = [value if is_number(value) else 0 for value in ids]
    usable = set(ids)
    if len(usable) == len(ids) and min(ids, default=1) > 0:
        return
    wrong = len(ids) - sum(value > 0 for value in usable)
    for number, record in enumerate(records, 1):
        record['id'] = number
    report.add(MENDED, 'annotations have no id, one that is no number above '
               '0, or that of another: all are numbered anew', wrong,
               len(ids))


def check_areas(rows: Annotations, trained: np.ndarray,
                report: Report) -> None:
    """Areas that cannot be those of the boxes; training does not use them."""
    box_areas = rows.boxes[:, 2] * rows.boxes[:, 3]
    with np.errstate(invalid='ignore'):
        larger = rows.areas > 1.5 * box_areas + 16
        smaller = rows.areas < 0.5 * box_areas - 16
    suspects = np.flatnonzero(
        trained & (rows.areas > 0) & (larger | smaller))
    # The area of a mask may be much smaller.
    masks = rows.values['segmentation']
    found = [row for row in suspects
             if larger[row] or not masks[row]]
    if found:
        row = found[0]
        report.add(KEPT, 'boxes have an area far from width x height, which '
                   'puts them among other sizes in evaluation', len(found),
                   int(trained.sum()),
                   f'{rows.example(row, "area")}, bbox='
                   f'{rows.records[row]["bbox"]}')


def check_turns(rows: Annotations, trained: np.ndarray,
                report: Report) -> None:
    """Rectangles that were turned: ``bbox`` is that before the turn.

    So CVAT writes them, the angle in ``attributes.rotation``.
    """
    turned = [row for row in np.flatnonzero(trained)
              if _turn(rows.records[row].get('attributes'))]
    if turned:
        report.add(KEPT, 'boxes were turned, and bbox is that before the '
                   'turn; write the box around the object, or export '
                   'polygons', len(turned), int(trained.sum()),
                   rows.example(turned[0], 'attributes'))


def _turn(attributes: object) -> float:
    """The angle in the attributes of an annotation, 0 without one."""
    angle = attributes.get('rotation') if isinstance(
        attributes, dict) else None
    return angle % 360 if is_number(angle) else 0


def check_what_is_left(rows: Annotations, usable: Usable, wanted: np.ndarray,
                       report: Report) -> None:
    """Stop where most boxes are lost, or nothing is left to learn."""
    total, left = int(wanted.sum()), int(usable.trained.sum())
    if total and 2 * left < total:
        worst = max(report.of(DROPPED), key=lambda each: each.count)
        reason = f'; most of them {worst.what.removeprefix("boxes ")}'
        report.add(STOPS, f'boxes cannot be used{reason}', total - left,
                   total, worst.example, worst.way_out or
                   'mend the boxes and their ids in the file')
    elif total and rows.crowd[usable.trained].all():
        report.add(STOPS, 'boxes are crowds, which are not learned', left,
                   total, way_out='write iscrowd=0 for single objects')
