# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read and check annotation files in COCO format.

msgspec decodes and type-checks the file, and locates wrong values. Useless or
ambiguous files are errors; lost boxes are counted in a warning.
"""
import itertools
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn

import msgspec
import numpy as np

from ..errors import UserError
from .images import ImageError, ImageFile

#: Number of image files to compare with the annotations when a run starts.
SAMPLE = 100
_Length = Annotated[int, msgspec.Meta(ge=1)]
_NotEmpty = msgspec.Meta(min_length=1)


class _Record(msgspec.Struct, kw_only=True, gc=False):
    """A record with the dict methods that mmdet calls, but far smaller."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        return getattr(self, key, default)


class ImageRecord(_Record):
    id: int | str
    file_name: Annotated[str, _NotEmpty]
    width: _Length
    height: _Length


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
    images: Annotated[list[ImageRecord], _NotEmpty]
    categories: Annotated[list[Category], _NotEmpty]
    annotations: list[Annotation]


class _CocoMaskFile(CocoFile, kw_only=True):
    annotations: list[MaskAnnotation]


@dataclass
class CocoReport:
    """The findings in an annotation file.

    Attributes:
        path (str): The file.
        warnings (list[str]): Left out or suspicious boxes and images.
        per_class (dict[str, int]): Usable boxes of each class.
        summary (str): Numbers of images and boxes.
    """
    path: str
    warnings: list[str] = field(default_factory=list)
    per_class: dict[str, int] = field(default_factory=dict)
    summary: str = ''

    def fail(self, problem: str) -> NoReturn:
        """Raise UserError with the name of the file."""
        raise UserError(f"annotation file '{self.path}': {problem}")


def load_coco(path: str,
              classes: Sequence[str] | None = None,
              *,
              masks: bool = False,
              require_masks: bool = False,
              allow_subset: bool = False,
              unlabeled: bool = False,
              name: str = '') -> tuple[CocoFile, CocoReport]:
    """Read, check and normalize an annotation file.

    Categories are sorted like ``classes``. Annotations get ids from 1 on
    (COCO's evaluation takes 0 for "no match"), an ``area``, and an
    ``iscrowd`` of 0 or 1. Those that can't even be evaluated are removed;
    objects without a readable mask become crowds, which are ignored.

    Args:
        path (str): A local file.
        classes (Sequence[str], optional): Classes of the data set.
        masks (bool): Read masks, if there are any. Defaults to False.
        require_masks (bool): Whether there must be masks. Defaults to False.
        allow_subset (bool): Whether the file may have other categories,
            whose boxes are left out. Defaults to False.
        unlabeled (bool): Whether it may have no boxes. Defaults to False.
        name (str): The file's name in messages, if ``path`` is a copy.

    Raises:
        UserError: If the file is not JSON, a value has another type (with
            its location), or the data set would be useless or ambiguous.
    """
    report = CocoReport(name or path)
    content = _decode(path, report, masks or require_masks)
    _check_ids(content, report)
    if classes is not None:
        _check_classes(content, classes, allow_subset, report)
    total = len(content.annotations)
    used = _check_boxes(content, report) if total else []
    if require_masks or masks and any(
            a.segmentation for a in content.annotations):
        _ignore_unreadable_masks(content, report)
    _count(content, used, total, report)
    if not (unlabeled or used):
        report.fail('there are no boxes of the classes')
    return content, report


def _decode(path: str, report: CocoReport, masks: bool) -> CocoFile:
    if not os.path.isfile(path):  # reading a pipe would block
        report.fail('does not exist or is not a regular file')
    with open(path, 'rb') as file:
        content = file.read().removeprefix(b'\xef\xbb\xbf')
    try:
        return msgspec.json.decode(
            content, type=_CocoMaskFile if masks else CocoFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        report.fail(f'is not in COCO format: {error}')


def _check_ids(content: CocoFile, report: CocoReport) -> None:
    """Require unique ids and names."""
    for kind, key in (('images', 'id'), ('categories', 'id'),
                      ('categories', 'name')):
        values = Counter(record[key] for record in getattr(content, kind))
        value, number = values.most_common(1)[0]
        if number > 1:
            report.fail(f'{number} {kind} have the {key} {value!r}')
    if len({type(image.id) for image in content.images}) > 1:
        report.fail('some image ids are strings and others numbers')
    files = Counter(image.file_name for image in content.images)
    name, number = files.most_common(1)[0]
    if number > 1:
        report.warnings.append(
            f"{len(content.images) - len(files)} images repeat the file of "
            f"another (e.g. '{name}'): each has its own boxes only")


def _check_classes(content: CocoFile, classes: Sequence[str],
                   allow_subset: bool, report: CocoReport) -> None:
    """Require the categories to be the classes; sort them alike."""
    names = [category.name for category in content.categories]
    found = [name for name in names if name in classes or not allow_subset]
    if sorted(found) != sorted(classes):
        hint = (', or allow_subset=True to ignore the others'
                if set(classes) < set(names) else '')
        report.fail(
            f'its categories are {names}, but the classes of the data set '
            f'are {list(classes)}: set metainfo.classes and num_classes of '
            f'the head{hint}')
    if found != list(classes):
        report.warnings.append(
            f'categories are in another order ({found}) than the classes of '
            f'the data set ({list(classes)}); labels follow the classes')
    order = {name: i for i, name in enumerate(classes)}
    others = {c.id for c in content.categories if c.name not in order}
    content.categories = sorted(
        (c for c in content.categories if c.id not in others),
        key=lambda category: order[category.name])
    content.annotations = [a for a in content.annotations
                           if a.category_id not in others]


def _check_boxes(content: CocoFile, report: CocoReport) -> list[Annotation]:
    """Remove boxes that can't be evaluated; return those mmdet trains on."""
    annotations = content.annotations
    ids = {category.id for category in content.categories}
    for i, annotation in enumerate(annotations):
        if annotation.category_id not in ids:
            report.fail(f'annotation {i} has category_id='
                        f'{annotation.category_id}, but the categories have '
                        f'the ids {sorted(ids)}')
    boxes = np.fromiter(
        itertools.chain.from_iterable(a.bbox for a in annotations),
        float, 4 * len(annotations)).reshape(-1, 4)
    known = {image.id: (image.width, image.height)
             for image in content.images}
    sizes = np.array([known.get(a.image_id, (np.nan, np.nan))
                      for a in annotations], float)
    _check_format(boxes, sizes, annotations, report)
    evaluated, trained = _usable(boxes, sizes, annotations, report)
    content.annotations = [annotations[i] for i in np.flatnonzero(evaluated)]
    for number, annotation in enumerate(content.annotations, 1):
        annotation.id = number
        annotation.iscrowd = int(bool(annotation.iscrowd))
        if annotation.area is None:
            annotation.area = annotation.bbox[2] * annotation.bbox[3]
    return [annotations[i] for i in np.flatnonzero(trained)]


def _example(mask: np.ndarray, annotations: Sequence[Annotation]) -> str:
    first = annotations[int(mask.argmax())]
    return (f'{mask.sum()} of {len(mask)} boxes (e.g. {first.bbox} in image '
            f'{first.image_id})')


def _check_format(boxes: np.ndarray, sizes: np.ndarray,
                  annotations: Sequence[Annotation],
                  report: CocoReport) -> None:
    """Require boxes (x, y, width, height) in pixels, not corners."""
    slack = 1 + 0.02 * sizes
    past = ((boxes[:, :2] + boxes[:, 2:] > sizes + slack)
            | (boxes[:, :2] < -slack)).any(1)
    maybe_corners = ((boxes[:, 2:] > boxes[:, :2])
                     & (boxes[:, 2:] <= sizes + 1)).all(1).mean() > 0.95
    if not past.any():
        return
    problem = f'{_example(past, annotations)} exceed their image'
    if past.mean() > (0.2 if maybe_corners else 1 / 3):
        report.fail(f'{problem}: write x, y, width and height in pixels of '
                    'the image, not corners')
    report.warnings.append(problem)


def _usable(boxes: np.ndarray, sizes: np.ndarray,
            annotations: Sequence[Annotation],
            report: CocoReport) -> tuple[np.ndarray, np.ndarray]:
    """Find boxes to evaluate and boxes to train on, (N,), bool each."""
    inside = (np.minimum(boxes[:, :2] + boxes[:, 2:], sizes)
              - np.maximum(boxes[:, :2], 0)).clip(0)
    areas = np.array([np.nan if a.area is None else a.area
                      for a in annotations])
    rules = (
        (np.isnan(sizes[:, 0]), True,
         "have an image_id that is not in 'images'"),
        ((boxes[:, 2:] < 0).any(1), True, 'have a negative size'),
        ((inside == 0).any(1) & (boxes[:, 2:] > 0).all(1), True,
         'are outside of their image'),
        # mmdet drops these in training, COCO's evaluation counts them.
        ((boxes[:, 2:] < 1).any(1) | (areas <= 0), False,
         'are thinner than a pixel or have an area of 0'),
        (np.array([bool(a.ignore) for a in annotations]), False,
         "are marked 'ignore'"))
    evaluated, trained = np.ones((2, len(boxes)), bool)
    for mask, everywhere, what in rules:
        mask = mask & trained
        trained &= ~mask
        if everywhere:
            evaluated &= ~mask
        if mask.any():
            where = '' if everywhere else ' of training'
            report.warnings.append(f'{_example(mask, annotations)} {what} '
                                   f'and are left out{where}')
    if trained.mean() < 0.5:
        report.fail('most boxes cannot be used: ' + '; '.join(report.warnings))
    return evaluated, trained


def _ignore_unreadable_masks(content: CocoFile, report: CocoReport) -> None:
    """Turn objects without a readable mask into ignored crowds."""
    sizes = {i.id: (i.height, i.width) for i in content.images}
    lost = [a for a in content.annotations
            if not _has_mask(a, sizes[a.image_id])]
    if not lost:
        return
    problem = (f'{len(lost)} of {len(content.annotations)} objects have no '
               f'readable segmentation (e.g. {lost[0].bbox} in image '
               f'{lost[0].image_id}) and are ignored')
    if 2 * len(lost) > len(content.annotations):
        report.fail(problem)
    report.warnings.append(problem)
    for annotation in lost:
        x, y, w, h = annotation.bbox
        annotation.segmentation = [[x, y, x + w, y, x + w, y + h, x, y + h]]
        annotation.iscrowd = 1


def _has_mask(annotation: MaskAnnotation, size: tuple[int, int]) -> bool:
    """Whether the mask is readable; drops unreadable polygons."""
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


def _count(content: CocoFile, used: Sequence[Annotation], total: int,
           report: CocoReport) -> None:
    """Fill summary and per_class."""
    single = [a for a in used if not a.iscrowd]
    counts = Counter(a.category_id for a in single)
    report.per_class = {c.name: counts[c.id] for c in content.categories}
    empty = len(content.images) - len({a.image_id for a in used})
    report.summary = (
        f'{len(content.images)} images ({empty} without boxes), {len(used)} '
        f'of {total} boxes used, {len(used) - len(single)} of them crowds')
    if used and not single:
        report.fail('all boxes are crowds (iscrowd=1), which are not learned')
    missing = [name for name, number in report.per_class.items()
               if not number]
    if used and missing:
        report.warnings.append(f'classes without a box: {missing}')


def check_images(content: CocoFile,
                 folder: str,
                 report: CocoReport,
                 use_exif: bool = True,
                 skip_unreadable: bool = False) -> None:
    """Look for all listed images, and compare some with the annotations.

    Args:
        content (CocoFile): The annotations.
        folder (str): Base folder of ``file_name``.
        report (CocoReport): Receives the warnings.
        use_exif (bool): Whether images are loaded with EXIF rotation.
        skip_unreadable (bool): Whether training skips unreadable images.

    Raises:
        UserError: If an image is missing, unreadable or of another size.
    """
    paths = [os.path.join(folder, image.file_name)
             for image in content.images]
    problems, rotated = [], []
    missing = {path for path in paths if not os.path.isfile(path)}
    if missing:
        problems.append(f'{len(missing)} of {len(paths)} images are missing '
                        f"(e.g. '{min(missing)}'): check data_prefix and "
                        'file_name')
    rows = np.linspace(0, len(paths) - 1, min(SAMPLE, len(paths))).astype(int)
    for image, path in ((content.images[row], paths[row]) for row in rows
                        if paths[row] not in missing):
        try:
            file = ImageFile(path, use_exif=use_exif)
            file.require_size(image.height, image.width)
            if file.orientation > 1:
                rotated.append(path)
        except ImageError as error:
            problems.append(str(error))
    if problems and not skip_unreadable:
        report.fail('; '.join(problems[:5]))
    report.warnings += problems
    if rotated:
        report.warnings.append(
            f'{len(rotated)} of {len(rows)} images are rotated by EXIF (e.g. '
            f"'{rotated[0]}'): boxes must be drawn on the rotated image")
