# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read and check annotation files in COCO format.

msgspec decodes a file with types, so that a wrong value is reported with its
location. A few rules on arrays follow: what makes the file useless or
ambiguous stops, what costs some boxes is a warning with their number.
"""
import itertools
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import numpy as np
from PIL import Image as PILImage

from ..errors import UserError

#: Images whose headers are read when a run starts.
SAMPLE = 200
_EXIF_ORIENTATION = 0x0112


class _Record(msgspec.Struct, kw_only=True, gc=False):
    """A record that mmdet reads like a dict; far smaller than one."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        return getattr(self, key, default)

    def as_dict(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self.__struct_fields__}


class ImageRecord(_Record):
    id: int | str
    file_name: str
    width: int
    height: int


class Category(_Record):
    id: int
    name: str


class Annotation(_Record):
    image_id: int | str
    category_id: int
    bbox: Annotated[list[float], msgspec.Meta(min_length=4, max_length=4)]
    area: float | None = None
    iscrowd: int | bool = 0
    ignore: int | bool = 0
    id: Any = None


class MaskAnnotation(Annotation):
    segmentation: list[list[float]] | dict[str, Any] | None = None


class CocoFile(msgspec.Struct, kw_only=True):
    """The content of an annotation file."""
    images: list[ImageRecord]
    categories: list[Category]
    annotations: list[Annotation]


class _CocoMaskFile(CocoFile, kw_only=True):
    annotations: list[MaskAnnotation]


@dataclass
class CocoReport:
    """What was found in an annotation file.

    Attributes:
        path (str): The file.
        errors (list[str]): What makes it unusable.
        warnings (list[str]): What is left out or looks wrong.
        per_class (dict[str, int]): Usable boxes of each class.
        summary (str): Numbers of images and boxes.
    """
    path: str
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    per_class: dict[str, int] = field(default_factory=dict)
    summary: str = ''

    def require(self) -> None:
        """Raise UserError with the first error, if there is one."""
        if self.errors:
            more = len(self.errors) - 1
            raise UserError(
                f"annotation file '{self.path}': {self.errors[0]}"
                + (f' (and {more} more; see tools/check_data.py)' if more
                   else ''))


def read_coco(path: str, masks: bool = False, name: str = '') -> CocoFile:
    """Decode an annotation file.

    Args:
        path (str): A local file.
        masks (bool): Read ``segmentation`` as well. Defaults to False.
        name (str): How messages call the file, if it is a copy.

    Raises:
        UserError: If it is not JSON or a value has another type, with the
            location of the value.
    """
    if not os.path.isfile(path):  # reading a pipe would block
        raise UserError(f"annotation file '{name or path}' is not a file")
    with open(path, 'rb') as file:
        content = file.read().removeprefix(b'\xef\xbb\xbf')
    try:
        return msgspec.json.decode(
            content, type=_CocoMaskFile if masks else CocoFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"annotation file '{name or path}' is not in COCO "
                        f'format: {error}') from error


def check_coco(content: CocoFile,
               path: str,
               classes: Sequence[str] | None = None,
               allow_subset: bool = False,
               unlabelled: bool = False) -> CocoReport:
    """Check an annotation file, and normalize it in place.

    Annotations get ids from 1 on (COCO's evaluation takes 0 for "no match"),
    an ``area``, and an ``iscrowd`` of 0 or 1. Those that no evaluation can
    use are removed.

    Args:
        content (CocoFile): As decoded by :func:`read_coco`.
        path (str): The file, for messages.
        classes (Sequence[str], optional): Classes of the model.
        allow_subset (bool): Whether the file may hold other categories,
            whose boxes are left out. Defaults to False.
        unlabelled (bool): Whether it may hold no boxes. Defaults to False.

    Returns:
        CocoReport: With errors, warnings and counts.
    """
    report = CocoReport(path)
    _check_ids(content, report)
    if not report.errors and classes is not None:
        _check_classes(content, classes, allow_subset, report)
    if not report.errors:
        _check_boxes(content, classes, unlabelled, report)
    return report


def _check_ids(content: CocoFile, report: CocoReport) -> None:
    """Ids and names must be unique, sizes positive."""
    for kind, records in (('images', content.images),
                          ('categories', content.categories)):
        if not records:
            report.errors.append(f"'{kind}' is empty")
        for value, number in Counter(r.id for r in records).items():
            if number > 1:
                report.errors.append(
                    f'{number} {kind} have the id {value!r}')
                break
    names = Counter(category.name for category in content.categories)
    report.errors += [f"{number} categories have the name '{name}'"
                      for name, number in names.items() if number > 1][:1]
    if len({isinstance(image.id, str) for image in content.images}) > 1:
        report.errors.append('some image ids are text and others numbers')
    for image in content.images:
        if image.width < 1 or image.height < 1 or not image.file_name:
            report.errors.append(
                f'image {image.id!r} has file_name={image.file_name!r}, '
                f'width={image.width}, height={image.height}')
            break
    files = Counter(image.file_name for image in content.images)
    twice = [name for name, number in files.items() if number > 1]
    if twice:
        report.warnings.append(
            f"{len(twice)} files are listed under several ids (e.g. "
            f"'{twice[0]}'): each is trained with its own boxes only")


def _check_classes(content: CocoFile, classes: Sequence[str],
                   allow_subset: bool, report: CocoReport) -> None:
    """The categories must be the classes of the data set, in any order."""
    if isinstance(classes, str):
        report.errors.append(f'metainfo.classes={classes!r} must be a list: '
                             f'write ({classes!r}, ) for a single class')
        return
    names = [category.name for category in content.categories]
    found = [name for name in names if name in classes or not allow_subset]
    if sorted(found) != sorted(classes):
        hint = (', or allow_subset=True to ignore the others'
                if set(classes) < set(names) else '')
        report.errors.append(
            f'its categories are {names}, but the classes of the data set '
            f'are {list(classes)}: set metainfo.classes and num_classes of '
            f'the head{hint}')
    elif found != list(classes):
        report.warnings.append(
            f'categories are in another order ({found}) than the classes of '
            f'the data set ({list(classes)}); labels follow the classes')


def _check_boxes(content: CocoFile, classes: Sequence[str] | None,
                 unlabelled: bool, report: CocoReport) -> None:
    """Remove unusable boxes, and count the rest."""
    annotations = content.annotations
    categories = {c.id: c.name for c in content.categories}
    unknown = next((i for i, a in enumerate(annotations)
                    if a.category_id not in categories), None)
    if unknown is not None:
        report.errors.append(
            f'annotation {unknown} has '
            f'category_id={annotations[unknown].category_id}, but the '
            f'categories have the ids {sorted(categories)}')
        return
    if classes is not None:
        annotations = [a for a in annotations
                       if categories[a.category_id] in classes]
    table = _Boxes(annotations, content.images)
    if not len(annotations):
        if not unlabelled:
            report.errors.append('there are no boxes of the classes')
    elif not _check_format(table, report):
        _drop(table, report)
    content.annotations = _normalized(
        [annotations[row] for row in np.flatnonzero(table.readable)])
    _count(content, table, classes or [*categories.values()], report)


class _Boxes:
    """Boxes as arrays.

    Attributes:
        boxes (np.ndarray): (N, 4), x, y, width, height in pixels.
        sizes (np.ndarray): (N, 2), width and height of the image, NaN if
            the image is unknown.
        readable (np.ndarray): (N,), bool: what evaluation can use.
        trained (np.ndarray): (N,), bool: what mmdet trains on.
    """

    def __init__(self, annotations: Sequence[Annotation],
                 images: Sequence[ImageRecord]) -> None:
        self.annotations = annotations
        number = len(annotations)
        self.boxes = np.fromiter(
            itertools.chain.from_iterable(a.bbox for a in annotations),
            float, 4 * number).reshape(number, 4)
        sizes = {image.id: (image.width, image.height) for image in images}
        unknown = (np.nan, np.nan)
        self.sizes = np.array([sizes.get(a.image_id, unknown)
                               for a in annotations]).reshape(number, 2)
        self.ends = self.boxes[:, :2] + self.boxes[:, 2:]
        self.readable = np.ones(number, bool)
        self.trained = np.ones(number, bool)

    def example(self, mask: np.ndarray) -> str:
        annotation = self.annotations[int(mask.argmax())]
        return f'e.g. {annotation.bbox} in image {annotation.image_id}'

    def past_border(self) -> np.ndarray:
        """(N,), bool: boxes that leave the image by more than a slip."""
        slack = 1 + 0.02 * self.sizes
        return ((self.ends > self.sizes + slack)
                | (self.boxes[:, :2] < -slack)).any(axis=1)


def _check_format(table: _Boxes, report: CocoReport) -> bool:
    """Report boxes that are not (x, y, width, height) in pixels."""
    boxes, sizes = table.boxes, table.sizes
    fractions = ((boxes >= 0) & (boxes <= 1)).all(1) & (sizes > 2).all(1)
    corners = ((boxes[:, 2:] > boxes[:, :2])
               & (boxes[:, 2:] <= sizes + 1)).all(1)
    past = table.past_border()
    for mask, share, what in (
            (fractions, fractions.mean() > 0.5, 'are fractions of the image'),
            (corners, corners.mean() >= 0.95 and past.mean() >= 0.2,
             'are corners (x1, y1, x2, y2)'),
            (past, past.mean() > 1 / 3, 'reach past their image')):
        if share:
            report.errors.append(
                f'{mask.sum()} of {len(mask)} boxes {what} '
                f'({table.example(mask)}): write x, y, width and height in '
                'pixels of the image')
            return True
    return False


def _drop(table: _Boxes, report: CocoReport) -> None:
    """Leave out unusable boxes, each for the first reason that applies."""
    boxes, sizes = table.boxes, table.sizes
    inside = (np.minimum(table.ends, sizes)
              - np.maximum(boxes[:, :2], 0)).clip(0)
    areas = np.array([np.nan if a.area is None else a.area
                      for a in table.annotations])
    rules = (
        (np.isnan(sizes[:, 0]), True, "have an image_id that is not in "
         "'images'"),
        ((boxes[:, 2:] < 0).any(1), True, 'have a negative size'),
        ((inside == 0).any(1) & (boxes[:, 2:] > 0).all(1), True,
         'are outside of their image'),
        ((boxes[:, 2:] < 1).any(1) | (areas <= 0), False,
         'are thinner than a pixel or have an area of 0'),
        (np.array([bool(a.ignore) for a in table.annotations]), False,
         "are marked 'ignore'"))
    total = len(boxes)
    for mask, everywhere, what in rules:
        mask = mask & table.trained
        if mask.any():
            table.trained &= ~mask
            if everywhere:
                table.readable &= ~mask
            where = '' if everywhere else ' of training'
            report.warnings.append(
                f'{mask.sum()} of {total} boxes {what} and are left out'
                f'{where} ({table.example(mask)})')
    lost = total - table.trained.sum()
    if 2 * lost > total:
        report.errors.append(f'{lost} of {total} boxes cannot be used; '
                             f'{report.warnings[-1]}')
    past = table.past_border() & table.trained
    if past.any():
        report.warnings.append(f'{past.sum()} boxes reach past the border '
                               f'of their image ({table.example(past)})')


def _normalized(annotations: list[Annotation]) -> list[Annotation]:
    for number, annotation in enumerate(annotations, 1):
        annotation.id = number
        annotation.iscrowd = int(bool(annotation.iscrowd))
        if annotation.area is None:
            annotation.area = annotation.bbox[2] * annotation.bbox[3]
    return annotations


def _count(content: CocoFile, table: _Boxes, classes: Sequence[str],
           report: CocoReport) -> None:
    names = {c.id: c.name for c in content.categories}
    used = [table.annotations[row] for row in np.flatnonzero(table.trained)]
    single = [a for a in used if not a.iscrowd]
    counts = Counter(names[a.category_id] for a in single)
    report.per_class = {name: counts[name] for name in classes}
    empty = len(content.images) - len({a.image_id for a in used})
    report.summary = (
        f'{len(content.images)} images ({empty} without boxes), {len(used)} '
        f'of {len(table.annotations)} boxes used, '
        f'{len(used) - len(single)} of them crowds')
    if report.errors or not used:
        return
    if not single:
        report.errors.append('all boxes are crowds (iscrowd=1), which are '
                             'not learned')
    missing = [name for name, number in report.per_class.items()
               if not number]
    if missing:
        report.warnings.append(f'classes without a box: {missing}')


def check_masks(content: CocoFile, report: CocoReport) -> None:
    """Turn objects without a readable mask into ignored regions.

    Detections of them then count as neither right nor wrong.
    """
    sizes = {i.id: (i.height, i.width) for i in content.images}
    lost = [a for a in content.annotations
            if not _has_mask(a, sizes[a.image_id])]
    for annotation in lost:
        x, y, w, h = annotation.bbox
        annotation.segmentation = [[x, y, x + w, y, x + w, y + h, x, y + h]]
        annotation.iscrowd = 1
    if lost:
        found = report.errors if 2 * len(lost) > len(
            content.annotations) else report.warnings
        found.append(
            f'{len(lost)} of {len(content.annotations)} objects have no '
            f'readable segmentation (e.g. {lost[0].bbox} in image '
            f'{lost[0].image_id}) and are ignored')


def _has_mask(annotation: MaskAnnotation, size: tuple[int, int]) -> bool:
    mask = annotation.segmentation
    if isinstance(mask, Mapping):
        counts = mask.get('counts')
        if mask.get('size') != list(size):
            return False
        if isinstance(counts, list):
            return all(isinstance(n, int) and n >= 0 for n in counts) and sum(
                counts) == size[0] * size[1]
        return isinstance(counts, str)
    annotation.segmentation = [
        points for points in mask or ()
        if len(points) >= 6 and len(points) % 2 == 0]
    return bool(annotation.segmentation)


def check_images(images: Sequence[ImageRecord],
                 folder: str,
                 report: CocoReport,
                 use_exif: bool = True,
                 skip_missing: bool = False,
                 read: Callable[[str], np.ndarray] | None = None,
                 run: Callable[..., Iterable] = map) -> None:
    """Compare the listed images with the files.

    Args:
        images (Sequence[ImageRecord]): Of the annotation file.
        folder (str): What ``file_name`` is relative to.
        report (CocoReport): Extended.
        use_exif (bool): Whether images are loaded as EXIF rotates them.
        skip_missing (bool): Whether training skips unreadable images.
        read (Callable, optional): Decodes a file; then all files are
            decoded. By default the headers of :data:`SAMPLE` are read.
        run (Callable): Replaces ``map``, e.g. by one in processes.
    """
    paths = [os.path.join(folder, image.file_name) for image in images]
    missing = {path for path in paths if not os.path.isfile(path)}
    found = report.warnings if skip_missing else report.errors
    if missing:
        first = next(path for path in paths if path in missing)
        found.append(f'{len(missing)} of {len(paths)} images are missing '
                     f"(e.g. '{first}'): check data_prefix and file_name")
    rows = range(len(paths))
    if read is None and len(paths) > SAMPLE:
        rows = np.linspace(0, len(paths) - 1, SAMPLE).astype(int)
    rows = [row for row in rows if paths[row] not in missing]
    jobs = [(paths[row], read, use_exif) for row in rows]
    rotated = []
    for row, result in zip(rows, run(_measure, jobs)):
        if isinstance(result, str):
            found.append(result)
            continue
        size, orientation = result
        image = images[row]
        if size != (image.width, image.height):
            found.append(
                f"'{paths[row]}' has {size[0]}x{size[1]} pixels, but the "
                f'file says {image.width}x{image.height}')
        elif use_exif and orientation > 1:
            rotated.append(paths[row])
    if rotated:
        report.warnings.append(
            f"{len(rotated)} images are rotated by EXIF (e.g. '{rotated[0]}')"
            ': boxes must be drawn on the image as viewers show it')


def _measure(job: tuple) -> tuple[tuple[int, int], int] | str:
    """(width, height) and EXIF orientation of a file, or an error."""
    path, read, use_exif = job
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            with PILImage.open(path) as image:
                size = image.size
                orientation = image.getexif().get(_EXIF_ORIENTATION) or 1
        if read is not None:
            height, width = read(path).shape[:2]
            return (width, height), orientation
    # Decoders raise errors of many types.
    except Exception as error:
        return f"'{path}' cannot be read: {error}"
    return (size[::-1] if use_exif and orientation > 4 else size), orientation
