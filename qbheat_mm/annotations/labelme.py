# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read labelme's JSON files.

``imagePath``, relative to the JSON file, decides which image is meant. Shapes
of one label and ``group_id`` are parts of one object, as in labelme's own
converter.
"""
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from .account import ROTATED, Account, Kind
from .files import ExportFiles
from .records import Box, ListedExport, ListedImage

_OUTLINES = ('rectangle', 'mask', 'polygon', 'rotation', 'oriented_rectangle')


class _Shape(msgspec.Struct):
    label: str | int
    points: list[list[float]] = []
    shape_type: str | None = 'polygon'
    group_id: int | str | None = None


class LabelmeContent(msgspec.Struct):
    """A labelme file, without the image that it may contain."""
    shapes: list[_Shape]
    imagePath: str  # noqa: N815
    imageWidth: float | None = None  # noqa: N815
    imageHeight: float | None = None  # noqa: N815


def read_labelme(contents: Mapping[str, LabelmeContent], files: ExportFiles
                 ) -> ListedExport:
    """Read labelme files, whose folders give the split."""
    images = []
    for path, content in contents.items():
        size = None
        if content.imageWidth and content.imageHeight:
            size = round(content.imageWidth), round(content.imageHeight)
        boxes = _join_parts(content.shapes, path, files.account)
        images.append(ListedImage(
            content.imagePath, path, list(boxes), listed_size=size,
            split=files.split_of_image(path)))
    return ListedExport('labelme', images, upright=True, own_names=True)


def _join_parts(shapes: Sequence[_Shape], path: str,
                account: Account) -> Iterator[Box]:
    """Yield the objects; shapes of one group are one."""
    groups = {}
    for shape in shapes:
        box = _read_shape(shape, path, account)
        key = box.label, shape.group_id
        if not box.bbox:
            continue
        if shape.group_id is None:
            yield box
        elif key in groups:
            account.correct('parts joined by their group_id', path)
            _join(groups[key], box)
        else:
            groups[key] = box
    yield from groups.values()


def _join(whole: Box, part: Box) -> None:
    """Add a part to an object, whose mask needs one of each part."""
    whole.mask = whole.mask + part.mask if whole.mask and part.mask else None
    corners = []
    for x, y, w, h in (whole.bbox, part.bbox):
        corners += [x, y, x + w, y + h]
    whole.surround(corners)


def _read_shape(shape: _Shape, path: str, account: Account) -> Box:
    """Read a shape; without a box if it is not an area."""
    box, points = Box(label=str(shape.label).strip()), shape.points
    kind = shape.shape_type or 'polygon'
    if kind == 'circle' and len(points) == 2:
        (x, y), edge = points
        r = math.dist((x, y), edge)
        box.surround([x - r, y - r, x + r, y + r])
    elif kind in _OUTLINES and points:
        box.mask = [sum(points, [])] if len(points) > 2 else None
        box.surround(sum(points, []))
        if kind in ('rotation', 'oriented_rectangle'):
            account.correct(ROTATED, path)
    else:
        account.note(Kind.SKIPPED_BOX, f'that are {kind} shapes of '
                     f'{len(points)} points', path)
    return box
