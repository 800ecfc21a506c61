# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Choose classes, and keep the boxes that can be learned."""
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from ..datasets.coco_check import find_misfits
from ..errors import UserError
from .account import Account, Kind
from .files import composed, normalized
from .records import Box, ListedExport, ListedImage
from .yolo_boxes import COORDINATES

#: Labels that name no class; the others are labelme's.
_NO_CLASSES = {'', '__ignore__', '_background_'}


def choose_classes(export: ListedExport, wanted: Sequence[str] | None,
                   dropped: Sequence[str], account: Account) -> list[str]:
    """Skip boxes of other classes; return those with a box."""
    used = Counter()
    for image in export.images:
        for box in image.boxes:
            box.label = composed(box.label)
            used[box.label] += 1
    listed = sorted(used) if export.classes is None else export.classes
    names = []
    for name in map(composed, listed):
        if name not in (*names, *_NO_CLASSES):
            names.append(name)
    for name in (*(wanted or ()), *dropped):
        if not used[name]:
            raise UserError(f'no box is of class {name!r}: the export has '
                            f'{dict(used)}')
    unlisted = sorted(used.keys() - {*names, *dropped})
    if unlisted and not wanted:
        _refuse(unlisted, export.images)
    for name in names:
        if not used[name]:
            account.note(Kind.SKIPPED_CLASS, 'without a box', name)
    chosen = []
    for name in wanted or names:
        if used[name] and name not in dropped:
            chosen.append(name)
    for name in sorted(used):
        if name not in chosen:
            account.note(Kind.SKIPPED_BOX, f'of class {name!r}', '',
                         used[name])
    for image in export.images:
        image.boxes = [box for box in image.boxes if box.label in chosen]
    note_similar_names(chosen, account)
    return chosen


def _refuse(labels: Sequence[str], images: Sequence[ListedImage]) -> None:
    """Raise UserError that says where boxes of unlisted classes are."""
    sources, example = Counter(), {}
    for image in images:
        for box in image.boxes:
            if box.label == labels[0]:
                sources[image.source] += 1
                example.setdefault(image.source, image.name)
    (source, number), *_ = sources.most_common()
    raise UserError(
        f"{sources.total()} boxes ({number} of them on images of '{source}', "
        f"such as '{example[source]}') are of {labels[0]!r}, not one of the "
        f'classes: skip them with --drop-class {shlex.join(labels)}, or '
        'choose --classes')


def note_similar_names(classes: Sequence[str], account: Account) -> None:
    """Warn of classes whose names differ in case, spaces or zeros only."""
    spellings = defaultdict(list)
    for name in classes:
        words = re.sub(r'[\s_-]+', ' ', normalized(name))
        # Spreadsheets turn 01 into 1, and pandas 1 into 1.0.
        spellings[re.sub(r'(?<![\d.])0+(?=\d)|\.0+$', '', words)].append(name)
    for names in spellings.values():
        if len(names) > 1:
            account.note(Kind.WARNING, 'class names that differ in case, '
                         'spaces or zeros only', ', '.join(map(repr, names)))


def check_crowds(export: ListedExport, keep: bool | None, account: Account
                 ) -> None:
    """Turn crowds into objects where a tool marks all masks as crowds."""
    boxes, crowds, masks_are_crowds = 0, [], True
    for image in export.images:
        boxes += len(image.boxes)
        for box in image.boxes:
            masks_are_crowds &= box.crowd == isinstance(box.mask, dict)
            if box.crowd:
                crowds.append(box)
    if keep is None:
        keep = len(crowds) < boxes and not (
            'CVAT' in export.format and masks_are_crowds)
        if keep and 5 * len(crowds) > boxes:
            raise UserError(
                f'{len(crowds)} of {boxes} boxes are crowds (iscrowd=1), not '
                'trained on: choose --keep-crowds, or --no-keep-crowds '
                '(objects)')
    if not keep:
        for box in crowds:
            box.crowd = False
        account.correct('crowds that became objects', '', len(crowds))


def clean_boxes(images: Sequence[ListedImage], account: Account) -> None:
    """Clip boxes to their images, and skip useless ones.

    Raises:
        UserError: If boxes are corners or fractions, by the rule of
            :func:`find_misfits`, or none is left.
    """
    rows, owners = [], []
    for image in images:
        image.boxes = list(_drop_impossible_corners(image, account))
        for box in image.boxes:
            rows.append((*box.bbox, *image.size))
            owners.append(image)
    if not rows:
        raise UserError(f'the export has no box to train on: {account}')
    values = np.array(rows, float)
    misfits = find_misfits(values[:, :4], values[:, 4:])
    if misfits.problem:
        first = misfits.which.argmax()
        image, problem = owners[first], misfits.problem
        if image.listed_size == (1, 1):
            problem = f'do not fit their image: write {COORDINATES}'
        raise UserError(
            f'{misfits.which.sum()} of {len(rows)} boxes (e.g. '
            f"{values[first, :4].tolist()}), the first in '{image.file}', "
            f'{problem}')
    for image in images:
        image.boxes = list(_clip(image, account))


def _drop_impossible_corners(image: ListedImage, account: Account
                             ) -> Iterator[Box]:
    """Skip boxes whose corners, put in order, are not in the image."""
    for box in image.boxes:
        x, y, w, h = box.bbox
        slack = 1 + 0.02 * max(image.size)
        if box.swapped and (
                min(x, y) < -slack or x + w > image.size[0] + slack
                or y + h > image.size[1] + slack):
            account.note(Kind.SKIPPED_BOX, 'whose corners are in the wrong '
                         'order and beyond their image', image.source)
            continue
        if box.swapped:
            account.correct('corners in the wrong order', image.source)
        yield box


def _clip(image: ListedImage, account: Account) -> Iterator[Box]:
    width, height = image.size
    for box in image.boxes:
        x, y, w, h = box.bbox
        left, top = max(x, 0), max(y, 0)
        right, bottom = min(x + w, width), min(y + h, height)
        clipped = [left, top, right - left, bottom - top]
        where = f"{box.bbox} in '{image.file}'"
        if min(w, h) < 1:
            account.note(Kind.SKIPPED_BOX, 'thinner than a pixel', where)
            continue
        if min(clipped[2:]) < 1:
            account.note(Kind.SKIPPED_BOX, 'outside of their image', where)
            continue
        # Fractions have rounding errors.
        if np.abs(np.subtract(clipped, box.bbox)).max() > 0.01:
            account.correct('boxes that reached beyond their image',
                            image.file)
        box.bbox = clipped
        yield box
