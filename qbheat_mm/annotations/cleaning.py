# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Choose classes, find and open images, and keep boxes that can be learned."""
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from joblib import cpu_count

from ..datasets.images import ImageFile
from ..errors import ImageError, UserError
from .export import Account, Box, Files, Picture
from .split import perceptual_hash


def choose_classes(pictures: Sequence[Picture], names: Sequence[str] | None,
                   wanted: Sequence[str] | None, dropped: Sequence[str],
                   account: Account) -> list[str]:
    """Leave out boxes of other classes; return those with a box."""
    used = Counter(box.label for picture in pictures for box in picture.boxes)
    names = sorted(used) if names is None else names
    for name in (*(wanted or ()), *dropped):
        if not used[name]:
            raise UserError(f'no box is of class {name!r}: the export has '
                            f'{dict(used)}')
    unlisted = sorted(used.keys() - {*names, *dropped})
    if unlisted and not wanted:
        example = next(each.source for each in pictures for box in each.boxes
                       if box.label == unlisted[0])
        raise UserError(
            f"{used[unlisted[0]]} boxes in '{example}' are of {unlisted[0]!r},"
            ' not one of the classes: leave them out with --drop-class '
            f'{" ".join(map(repr, unlisted))}, or choose --classes')
    for name in names:
        account.note('classes left out', 'without a box', name, not used[name])
    chosen = [name for name in wanted or names
              if used[name] and name not in dropped]
    for name in sorted(used.keys() - {*chosen}):
        account.note('boxes left out', f'of class {name!r}', '', used[name])
    for picture in pictures:
        picture.boxes = [box for box in picture.boxes if box.label in chosen]
    return chosen


def find_images(pictures: Sequence[Picture], files: Files) -> list[Picture]:
    """Find the files; merge images that are listed twice."""
    found, missing = {}, []
    for picture in pictures:
        picture.file = files.locate(picture.name, picture.source)
        if not picture.file:
            missing.append(picture.name)
            files.account.leave_out(picture, 'whose file is missing')
            continue
        first = found.setdefault((picture.file, picture.split), picture)
        if (first.name, first.source) != (picture.name, picture.source):
            raise UserError(
                f"'{first.name}' in '{first.source}' and '{picture.name}' in "
                f"'{picture.source}' are both '{picture.file}': keep one file "
                'of annotations, or give the right folder with --images')
        if first is not picture:
            first.boxes += picture.boxes
            files.account.put_right('images listed twice', picture.name)
    if 2 * len(missing) > len(pictures):
        raise UserError(f'{len(missing)} of {len(pictures)} images are missing'
                        f" (e.g. '{missing[0]}'): give their folder with "
                        '--images')
    for file in {*files.images} - {file for file, _ in found}:
        files.account.note('files left out', 'that the export does not list',
                           file)
    return sorted(found.values(), key=lambda each: each.file)


def open_images(pictures: Sequence[Picture], account: Account
                ) -> list[Picture]:
    """Return the readable images, with their sizes and hashes."""
    with ThreadPoolExecutor(cpu_count()) as pool:
        results = [*pool.map(_look, pictures)]
    good = []
    for picture, (size, content) in zip(pictures, results):
        if size is None:
            account.leave_out(picture, 'that cannot be read', content)
            continue
        if picture.size == (1, 1):
            for box in picture.boxes:
                _scale(box, size)
        elif picture.size not in (None, size):
            raise UserError(
                f"'{picture.file}' has another size, {size}, than in "
                f"'{picture.source}', {picture.size}: give the images that "
                'were annotated with --images')
        picture.size, picture.hash = size, content
        good.append(picture)
    return good


def _look(picture: Picture) -> tuple:
    try:
        image = ImageFile(picture.file)
        return image.shape[::-1], perceptual_hash(image)
    except ImageError as error:
        return None, error


def _scale(box: Box, size: tuple[int, int]) -> None:
    """Convert fractions of width and height to pixels."""
    box.bbox, *mask = [[x * size[i % 2] for i, x in enumerate(values)]
                       for values in (box.bbox, *(box.mask or ()))]
    box.mask = mask


def check_crowds(pictures: Sequence[Picture], tool: str, keep: bool | None,
                 account: Account) -> None:
    """Turn crowds into objects where a tool marks all masks as crowds."""
    boxes = [box for picture in pictures for box in picture.boxes]
    crowds = [box for box in boxes if box.crowd]
    by_tool = len(crowds) == len(boxes) or 'CVAT' in tool and all(
        box.crowd == isinstance(box.mask, dict) for box in boxes)
    if keep is None and not by_tool and 5 * len(crowds) > len(boxes):
        raise UserError(
            f'{len(crowds)} of {len(boxes)} boxes are crowds (iscrowd=1), not '
            'trained on: choose --keep-crowds, or --no-keep-crowds (objects)')
    if keep is False or keep is None and by_tool:
        for box in crowds:
            box.crowd = False
        account.put_right('crowds that became objects', '', len(crowds))


def clean_boxes(pictures: Sequence[Picture], account: Account) -> None:
    """Clip boxes to their images, and leave out those that are useless.

    Raises:
        UserError: If many are corners, which exceed the image as sizes, or
            fractions.
    """
    rows = np.array([(*box.bbox, *picture.size)
                     for picture in pictures for box in picture.boxes])
    if not len(rows):
        raise UserError('the export has no box that can be learned: '
                        f'{dict(account)}')
    wrong = (rows[:, :2] + rows[:, 2:4] > 1.02 * rows[:, 4:] + 1).any(1)
    wrong |= (rows[:, 2:4] <= 1).all(1)
    if wrong.mean() > 1 / 3:
        raise UserError(
            f'{wrong.sum()} of {len(rows)} boxes (e.g. '
            f'{rows[wrong.argmax(), :4].tolist()}) do not fit: write x, y, '
            'width and height in pixels, not corners or fractions')
    for picture in pictures:
        picture.boxes = [*_clean(picture, account)]


def _clean(picture: Picture, account: Account) -> Iterator[Box]:
    width, height = picture.size
    for box in picture.boxes:
        x, y, w, h = box.bbox
        left, top = max(x, 0), max(y, 0)
        right, bottom = min(x + w, width), min(y + h, height)
        clipped = [left, top, right - left, bottom - top]
        why = ('thinner than a pixel' if min(w, h) < 1 else
               '' if all(side >= 1 for side in clipped[2:]) else
               'outside of their image')
        if why:
            account.note('boxes left out', why,
                         f"{box.bbox} in '{picture.file}'")
            continue
        # Fractions have rounding errors.
        if max(abs(a - b) for a, b in zip(clipped, box.bbox)) > 0.01:
            account.put_right('boxes that reached beyond their image',
                              picture.file)
        box.bbox = clipped
        yield box
