# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Match and open the images of an export, and turn their boxes upright.

Training sees photographs as EXIF rotates them. Whether boxes are drawn on
these or on the stored pixels follows from the tool, or the sizes it writes;
else from ``--boxes-on``.
"""
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from joblib import cpu_count

from ..datasets.images import ImageFile
from ..errors import ImageError, UserError
from .account import IN_TWO_SPLITS, Account, Kind
from .lookup import ImageLookup
from .records import SPLITS, Box, ListedExport, ListedImage
from .split import perceptual_hash


def match_files(export: ListedExport, lookup: ImageLookup, account: Account
                ) -> list[ListedImage]:
    """Find the files of an export's images; merge images of the same file.

    An image of several splits is in the first of them, with all its boxes.

    Raises:
        UserError: If most images are missing or not unique, or several files
            of annotations describe one image.
    """
    images = export.images
    lookup.find(images, export.hashed_names)
    if export.own_names and not any(image.file for image in images):
        _match_own_names(export, lookup, account)
    found, missing = {}, []
    for image in images:
        if not image.file:
            missing.append(image)
            account.skip(image, 'whose file is missing, or one of several '
                         'of this name')
        elif image.file in found:
            _merge(found[image.file], image, account)
        else:
            found[image.file] = image
    if 2 * len(missing) > len(images):
        raise UserError(
            f'{len(missing)} of {len(images)} images are missing or not '
            f"unique (e.g. '{missing[0].name}' in '{missing[0].source}'): "
            'give their folder with --images, or write full names')
    for file in lookup.files.images:
        if file not in found:
            account.note(Kind.SKIPPED_FILE, 'that the export does not list',
                         file)
    return [found[file] for file in sorted(found)]


def _match_own_names(export: ListedExport, lookup: ImageLookup,
                     account: Account) -> None:
    """Find images that were renamed together with their annotations."""
    for image in export.images:
        image.name = image.source.rpartition('/')[2].rpartition('.')[0]
    lookup.find(export.images, export.hashed_names)
    for image in export.images:
        if image.file:
            account.correct('images named like their annotation files',
                            image.source)


def _merge(first: ListedImage, other: ListedImage, account: Account) -> None:
    """Add what another entry states of the same file."""
    if first.label != other.label:
        raise UserError(f"'{first.file}' is both {first.label!r} and "
                        f"{other.label!r} in '{other.source}': give each "
                        'image one class')
    if first.split != other.split:
        account.correct(IN_TWO_SPLITS, first.file)
        splits = {first.split, other.split} - {''}
        first.split = min(splits, key=SPLITS.index)
    elif first.source != other.source:
        raise UserError(
            f"'{first.name}' in '{first.source}' and '{other.name}' in "
            f"'{other.source}' are both '{first.file}': keep one file of "
            'annotations, or give the right folder with --images')
    else:
        account.correct('images listed twice', other.name)
    stated = set()
    for box in first.boxes:
        stated.add((box.label, *box.bbox))
    for box in other.boxes:
        if (box.label, *box.bbox) not in stated:
            first.boxes.append(box)


def open_images(images: Sequence[ListedImage], account: Account
                ) -> list[ListedImage]:
    """Return the readable images, with their sizes and hashes."""
    with ThreadPoolExecutor(cpu_count()) as pool:
        errors = list(pool.map(_open, images))
    readable = []
    for image, error in zip(images, errors):
        if error is None:
            readable.append(image)
        else:
            account.skip(image, 'that cannot be read', error)
    return readable


def _open(image: ListedImage) -> ImageError | None:
    """Set size, orientation and hash of an image; return what fails."""
    try:
        file = ImageFile(image.file)
        image.hash = perceptual_hash(file)
    except ImageError as error:
        return error
    image.size, image.orientation = file.shape[::-1], file.orientation
    return None


def place_boxes(images: Sequence[ListedImage], export: ListedExport,
                boxes_on: str | None, account: Account) -> None:
    """Convert boxes to pixels of the upright images.

    Args:
        images (Sequence[ListedImage]): Opened images.
        export (ListedExport): States the tool, if known.
        boxes_on (str, optional): ``'upright'`` or ``'stored'``; by default,
            the tool or the sizes must state it.
        account (Account): Counts rotated images.

    Raises:
        UserError: If an image has another size than was annotated, or it is
            open on which pixels the boxes of rotated images are.
    """
    rotated = [image for image in images if image.orientation > 1]
    for image in images:
        if image.listed_size not in (None, (1, 1), image.size,
                                     _stored_size(image)):
            raise UserError(
                f"'{image.file}' has another size, {image.size}, than in "
                f"'{image.source}', {image.listed_size}: give the images that "
                'were annotated with --images')
    boxes_on = boxes_on or _decide_pixels(rotated, export)
    if rotated:
        account.note(
            Kind.NOTICE, 'images are rotated by EXIF, and boxes are on '
            f'{boxes_on} pixels (--boxes-on)', rotated[0].file, len(rotated))
    for image in images:
        stored = boxes_on == 'stored' and image.orientation > 1
        size = _stored_size(image) if stored else image.size
        for box in image.boxes:
            if image.listed_size == (1, 1):
                _scale(box, size)
            if stored:
                _turn(box, image)


def _stored_size(image: ListedImage) -> tuple[int, int]:
    return image.size[::-1] if image.orientation > 4 else image.size


def _decide_pixels(rotated: Sequence[ListedImage], export: ListedExport
                   ) -> str:
    """Return ``'upright'`` if that is certain."""
    swapped, upright = [], export.upright
    for image in rotated:
        stored = _stored_size(image)
        if stored != image.size:
            upright |= image.listed_size == image.size
            if image.listed_size == stored:
                swapped.append(image)
    labeled = [image for image in rotated if image.boxes]
    sizes_agree = export.stored_sizes or not swapped
    is_certain = upright and sizes_agree
    if is_certain or not labeled:
        return 'upright'
    example = (swapped or labeled)[0]
    raise UserError(
        f'{len(rotated)} images are rotated by EXIF (e.g. '
        f"'{example.file}'), and {export.format} does not say whether the "
        f"boxes in '{example.source}' refer to the rotated image: pass "
        '--boxes-on upright (as viewers show the image) or --boxes-on stored '
        '(before the rotation)')


def _scale(box: Box, size: tuple[int, int]) -> None:
    """Convert fractions of width and height to pixels."""
    for values in (box.bbox, *(box.mask or ())):
        for i, value in enumerate(values):
            values[i] = value * size[i % 2]


def _turn(box: Box, image: ListedImage) -> None:
    """Rotate a box and its polygons as EXIF rotates the image."""
    if isinstance(box.mask, dict):
        raise UserError(f"'{image.source}': masks as run lengths cannot be "
                        'rotated by EXIF: export polygons')
    x, y, w, h = box.bbox
    box.surround(_turn_points([x, y, x + w, y + h], image))
    if box.mask:
        box.mask = [_turn_points(points, image) for points in box.mask]


def _turn_points(points: Sequence[float], image: ListedImage) -> list[float]:
    """Map points (x1, y1, ...) of the stored to the upright image."""
    turned = []
    for x, y in zip(points[::2], points[1::2]):
        if image.orientation > 4:
            x, y = y, x
        if image.orientation in (2, 3, 6, 7):
            x = image.size[0] - x
        if image.orientation in (3, 4, 7, 8):
            y = image.size[1] - y
        turned += [x, y]
    return turned
