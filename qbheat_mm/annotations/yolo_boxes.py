# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read the lines of YOLO's label files."""
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ..errors import UserError
from .account import ROTATED
from .files import ExportFiles, reading
from .records import Box, ListedImage
from .yolo_classes import yaml_beside

#: What label files have after the class.
COORDINATES = 'center x, center y, width and height as fractions of the image'
#: Boxes and polygons may reach beyond their image, in fractions of its sides.
_MAX_COORDINATE = 1.5
# Of polygons, to find out what they are.
_SAMPLE = 200
_LINE = re.compile(r'\d+(\s+[\d.e+-]+){4,}')


def unlisted(index: float) -> str:
    """Name a class that the list of classes lacks."""
    return f'unlisted class {index:g}'


def are_boxes(lines: Iterable[str]) -> bool:
    """Whether lines look like a label file."""
    return all(map(_LINE.fullmatch, lines))


def read_boxes(path: str, names: Mapping[int, str], poses: bool,
               files: ExportFiles) -> Iterator[Box]:
    """Read the lines CLASS X Y W H, or CLASS X1 Y1 X2 Y2 X3 Y3 ..."""
    for line in files.lines(path):
        with reading(f'{path}: {line[:80]}'):
            index, *points = map(float, line.split())
            label = names.get(index, unlisted(index))
            if len(points) == 4 or poses and len(points) > 4:
                x, y, w, h = points[:4]
                _require_fractions([x, y, w, h], f'write {COORDINATES}')
                yield Box(label=label, bbox=[x - w / 2, y - h / 2, w, h])
                continue
            if len(points) < 6 or len(points) % 2:
                raise ValueError('after the class, a box needs 4 numbers, and '
                                 'a polygon an even number of at least 6')
            _require_fractions(points, 'poses need kpt_shape in the YAML file')
            if _is_rotated_box(points):
                files.account.correct(ROTATED, path)
            yield Box(label=label, mask=[points]).surround(points)


def _require_fractions(points: Sequence[float], remedy: str) -> None:
    if max(points) > _MAX_COORDINATE:
        raise ValueError(f'{max(points):g} is not normalized; {remedy}')


def reject_ids_from_1(images: Iterable[ListedImage], names: Mapping[int, str],
                      path: str) -> None:
    """Raise UserError if the ids of classes seem to count from 1.

    The first class has no box then, but the id after the last one has.
    """
    labels = set()
    for image in images:
        labels.update(box.label for box in image.boxes)
    beyond = max(names, default=0) + 1
    if 0 in names and names[0] not in labels and unlisted(beyond) in labels:
        raise UserError(
            'label files seem to number classes from 1: no box is of class 0, '
            f"{names[0]!r}, but some are of {beyond}, which '{path}' lacks: "
            'number them from 0, or put any name before the others')


def reject_poses(images: Iterable[ListedImage], path: str) -> None:
    """Raise UserError if polygons may be boxes and points of poses.

    All have as many numbers then, of which the first four are a box within
    the image, and half of the polygons cross themselves or have a lone corner.
    """
    polygons = []
    for image in images:
        for box in image.boxes:
            if box.mask:
                polygons.append(box.mask[0])
    if len({len(points) for points in polygons}) != 1:
        return
    corners = np.reshape(polygons, (len(polygons), -1, 2))
    center, size = corners[:, 0], corners[:, 1]
    inside = (center - size / 2 > -0.01) & (center + size / 2 < 1.01)
    if not inside.all():
        return
    strange = 0
    for points in corners[:_SAMPLE]:
        strange += _crosses_itself(points) or _has_lone_corner(points)
    if 2 * strange >= len(corners[:_SAMPLE]):
        number = corners.shape[1] - 2
        raise UserError(
            f"the polygons of '{path}' cross themselves, as poses of {number} "
            f"points would: add 'kpt_shape: [{number}, 2]' to "
            f"'{yaml_beside(path)}', or correct the polygons")


def _crosses_itself(points: np.ndarray) -> bool:
    """Whether two edges of a polygon, (K, 2), cross."""
    edges = [*zip(points, np.roll(points, -1, axis=0))]
    for i, (a, b) in enumerate(edges):
        for c, d in edges[i + 2:]:
            if (_turn(a, b, c) * _turn(a, b, d) < 0
                    and _turn(c, d, a) * _turn(c, d, b) < 0):
                return True
    return False


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """Positive if c is on one side of the line from a to b."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _has_lone_corner(points: np.ndarray) -> bool:
    """Whether the second corner is as far away as the others are wide."""
    others = np.delete(points, 1, axis=0)
    low, high = others.min(0), others.max(0)
    size = high - low
    return bool(((points[1] < low - size) | (points[1] > high + size)).any())


def _is_rotated_box(points: Sequence[float]) -> bool:
    """Whether four corners make a rotated rectangle."""
    if len(points) != 8:
        return False
    x1, y1, x2, y2, x3, y3, x4, y4 = points
    skew = max(abs(x1 + x3 - x2 - x4), abs(y1 + y3 - y2 - y4))
    tilt = min(abs(x2 - x1), abs(y2 - y1))
    return skew < 1e-3 < tilt
