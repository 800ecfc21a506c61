# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read and check annotation files in COCO format.

msgspec decodes and type-checks the file, and locates wrong values. Useless or
ambiguous files are errors; lost boxes are counted in a warning.
"""
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import NamedTuple, NoReturn

import msgspec
import numpy as np

from ..errors import ImageError, UserError
from .coco_file import (
    Annotation,
    CocoFile,
    CocoMaskFile,
    ImageRecord,
    MaskAnnotation,
    Record,
)
from .images import ImageFile
from .selection import spread

#: Number of image files to compare with the annotations when a run starts.
SAMPLE = 100


@dataclass
class CocoReport:
    """The findings in an annotation file.

    Attributes:
        path (str): The file.
        warnings (list[str]): Skipped or suspicious boxes and images.
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

    Categories are sorted like ``classes``. Annotations get ids from 1
    (COCO's evaluation takes 0 for "no match"), an ``area``, and an
    ``iscrowd`` of 0 or 1. Those that can't even be evaluated are removed;
    objects without a readable mask become crowds, which are ignored.

    Args:
        path (str): A local file.
        classes (Sequence[str], optional): Classes of the data set.
        masks (bool): Read masks, if there are any. Defaults to False.
        require_masks (bool): Whether there must be masks. Defaults to False.
        allow_subset (bool): Whether the file may have other categories,
            whose boxes are skipped. Defaults to False.
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
        report.fail("there are no boxes of the classes in 'annotations' (of "
                    'a test set, set unlabeled=True)')
    return content, report


def _decode(path: str, report: CocoReport, masks: bool) -> CocoFile:
    if not os.path.isfile(path):  # reading a pipe would block
        report.fail('does not exist or is not a regular file')
    with open(path, 'rb') as file:
        content = file.read().removeprefix(b'\xef\xbb\xbf')
    try:
        return msgspec.json.decode(
            content, type=CocoMaskFile if masks else CocoFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        report.fail(f'is not in COCO format: {error}')


def _column(records: Iterable[Record], key: str) -> list:
    """Return one field of all records."""
    return [getattr(record, key) for record in records]


def _check_ids(content: CocoFile, report: CocoReport) -> None:
    """Require unique ids and names."""
    for kind, key in (('images', 'id'), ('categories', 'id'),
                      ('categories', 'name')):
        values = Counter(_column(getattr(content, kind), key))
        value, number = values.most_common(1)[0]
        if number > 1:
            report.fail(f'{number} {kind} have the {key} {value!r}')
    files = Counter(_column(content.images, 'file_name'))
    name, number = files.most_common(1)[0]
    if number > 1:
        report.warnings.append(
            f"{len(content.images) - len(files)} images repeat the file of "
            f"another (e.g. '{name}'): each has its own boxes only")


def _check_classes(content: CocoFile, classes: Sequence[str],
                   allow_subset: bool, report: CocoReport) -> None:
    """Require the categories to be the classes; sort them alike."""
    used = names = _column(content.categories, 'name')
    if allow_subset:
        used = [name for name in names if name in classes]
    if sorted(used) != sorted(classes):
        hint = (', or allow_subset=True to ignore the others'
                if set(classes) < set(names) else '')
        report.fail(
            f'its categories are {names}, but the classes of the data set '
            f'are {list(classes)}: set metainfo.classes and num_classes of '
            f'the head{hint}')
    if used != list(classes):
        report.warnings.append(
            f'categories are in another order ({used}) than the classes of '
            f'the data set ({list(classes)}); labels follow the classes')
    by_name = dict(zip(names, content.categories))
    content.categories = [by_name.pop(name) for name in classes]
    others = set(_column(by_name.values(), 'id'))
    content.annotations = [annotation for annotation in content.annotations
                           if annotation.category_id not in others]


def _check_boxes(content: CocoFile, report: CocoReport) -> list[Annotation]:
    """Remove boxes that can't be evaluated; return those mmdet trains on."""
    annotations = content.annotations
    ids = set(_column(content.categories, 'id'))
    for i, annotation in enumerate(annotations):
        if annotation.category_id not in ids:
            report.fail(f'annotation {i} has category_id='
                        f'{annotation.category_id}, but the categories have '
                        f'the ids {sorted(ids)}')
    boxes = np.fromiter(
        chain.from_iterable(_column(annotations, 'bbox')),
        float, 4 * len(annotations)).reshape(-1, 4)
    known = {image.id: (image.width, image.height)
             for image in content.images}
    sizes = np.array([known.get(image_id, (np.nan, np.nan))
                      for image_id in _column(annotations, 'image_id')], float)
    _check_format(boxes, sizes, annotations, report)
    evaluated, trained = _usable(boxes, sizes, annotations, report)
    content.annotations = list(compress(annotations, evaluated))
    for number, annotation in enumerate(content.annotations, 1):
        annotation.id = number
        annotation.iscrowd = int(bool(annotation.iscrowd))
        if annotation.area is None:
            annotation.area = annotation.bbox[2] * annotation.bbox[3]
    return list(compress(annotations, trained))


def _example(mask: np.ndarray, annotations: Sequence[Annotation]) -> str:
    first = annotations[int(mask.argmax())]
    return (f'{mask.sum()} of {len(mask)} boxes (e.g. {first.bbox} in image '
            f'{first.image_id})')


class Misfits(NamedTuple):
    """Boxes that are not x, y, width and height in pixels of their image.

    Attributes:
        which (np.ndarray): (N,), bool.
        problem (str): What is wrong with all boxes, if many are; else ''.
    """
    which: np.ndarray
    problem: str


def find_misfits(boxes: np.ndarray, sizes: np.ndarray) -> Misfits:
    """Find boxes beyond their image, or in another format.

    They are reported if a third is beyond the image, or a fifth where all
    could be corners, or if a third are fractions.

    Args:
        boxes (np.ndarray): (N, 4), x, y, width and height.
        sizes (np.ndarray): (N, 2), width and height of their images.
    """
    write = 'write x, y, width and height in pixels of the image, not'
    fractions = ((boxes >= 0) & (boxes <= 1)).all(1) & (
        boxes[:, 2:] > 0).all(1)
    if fractions.mean() > 1 / 3:
        return Misfits(fractions, f'are thinner than a pixel: {write} '
                       'fractions')
    slack = 1 + 0.02 * sizes
    past = ((boxes[:, :2] + boxes[:, 2:] > sizes + slack)
            | (boxes[:, :2] < -slack)).any(1)
    maybe_corners = ((boxes[:, 2:] > boxes[:, :2])
                     & (boxes[:, 2:] <= sizes + 1)).all(1).mean() > 0.95
    if past.mean() > (0.2 if maybe_corners else 1 / 3):
        return Misfits(past, f'exceed their image: {write} corners')
    return Misfits(past, '')


def _check_format(boxes: np.ndarray, sizes: np.ndarray,
                  annotations: Sequence[Annotation],
                  report: CocoReport) -> None:
    """Require boxes (x, y, width, height) in pixels, not corners."""
    misfits = find_misfits(boxes, sizes)
    example = _example(misfits.which, annotations)
    if misfits.problem:
        report.fail(f'{example} {misfits.problem}')
    if misfits.which.any():
        report.warnings.append(f'{example} exceed their image')


def _usable(boxes: np.ndarray, sizes: np.ndarray,
            annotations: Sequence[Annotation],
            report: CocoReport) -> tuple[np.ndarray, np.ndarray]:
    """Find boxes to evaluate and boxes to train on, (N,), bool each."""
    inside = (np.minimum(boxes[:, :2] + boxes[:, 2:], sizes)
              - np.maximum(boxes[:, :2], 0)).clip(0)
    areas = np.array(_column(annotations, 'area'), float)  # nan for None
    ignored = np.array(_column(annotations, 'ignore'), bool)
    kept = np.ones(len(boxes), bool)

    def skip(mask: np.ndarray, reason: str, where: str = '') -> None:
        mask = mask & kept
        kept[mask] = False
        if mask.any():
            report.warnings.append(f'{_example(mask, annotations)} {reason} '
                                   f'and are skipped{where}')

    skip(np.isnan(sizes[:, 0]), "have an image_id that is not in "
         "'images'")
    skip((boxes[:, 2:] < 0).any(1), 'have a negative size')
    skip((inside == 0).any(1) & (boxes[:, 2:] > 0).all(1),
         'are outside of their image')
    evaluated = kept.copy()
    # mmdet drops these in training, COCO's evaluation counts them.
    skip((boxes[:, 2:] < 1).any(1) | (areas <= 0),
         'are thinner than a pixel or have an area of 0', ' of training')
    skip(ignored, "are marked 'ignore'", ' of training')
    if kept.mean() < 0.5:
        report.fail('most boxes cannot be used: ' + '; '.join(report.warnings))
    return evaluated, kept


def _ignore_unreadable_masks(content: CocoFile, report: CocoReport) -> None:
    """Turn objects without a readable mask into ignored crowds."""
    images = dict(zip(_column(content.images, 'id'), content.images))
    lost = [annotation for annotation in content.annotations
            if not _has_mask(annotation, images[annotation.image_id])]
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


def _has_mask(annotation: MaskAnnotation, image: ImageRecord) -> bool:
    """Whether the mask is readable; drops unreadable polygons."""
    mask = annotation.segmentation
    if isinstance(mask, Mapping):
        counts = mask.get('counts')
        if mask.get('size') != [image.height, image.width]:
            return False
        if isinstance(counts, list):
            return (all(isinstance(n, int) and n >= 0 for n in counts)
                    and sum(counts) == image.height * image.width)
        return isinstance(counts, str)
    annotation.segmentation = readable_polygons(mask or ())
    return bool(annotation.segmentation)


def readable_polygons(polygons: Iterable[Sequence[float]]
                      ) -> list[Sequence[float]]:
    """Keep polygons (x1, y1, x2, y2, ...) of at least three points."""
    return [points for points in polygons
            if len(points) >= 6 and len(points) % 2 == 0]


def _count(content: CocoFile, used: Sequence[Annotation], total: int,
           report: CocoReport) -> None:
    """Fill summary and per_class."""
    single = [annotation for annotation in used if not annotation.iscrowd]
    counts = Counter(_column(single, 'category_id'))
    missing = []
    for category in content.categories:
        report.per_class[category.name] = counts[category.id]
        if not counts[category.id]:
            missing.append(category.name)
    empty = len(content.images) - len(set(_column(used, 'image_id')))
    report.summary = (
        f'{len(content.images)} images ({empty} without boxes), {len(used)} '
        f'of {total} boxes used, {len(used) - len(single)} of them crowds')
    if used and not single:
        report.fail('all boxes are crowds (iscrowd=1), which are not learned')
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
    paths = [os.path.join(folder, name)
             for name in _column(content.images, 'file_name')]
    problems, rotated = [], []
    missing = {path for path in paths if not os.path.isfile(path)}
    if missing:
        problems.append(f'{len(missing)} of {len(paths)} images are missing '
                        f"(e.g. '{min(missing)}'): check data_prefix and "
                        'file_name')
    rows = spread(range(len(paths)), SAMPLE)
    for row in rows:
        if paths[row] in missing:
            continue
        try:
            file = ImageFile(paths[row], use_exif=use_exif)
            image = content.images[row]
            file.require_size(image.height, image.width)
            if file.orientation > 1:
                rotated.append(paths[row])
        except ImageError as error:
            problems.append(str(error))
    if problems and not skip_unreadable:
        report.fail('; '.join(problems[:5]))
    report.warnings += problems
    if rotated:
        report.warnings.append(
            f'{len(rotated)} of {len(rows)} images are rotated by EXIF (e.g. '
            f"'{rotated[0]}'): boxes must be drawn on the rotated image")
