# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read exports in COCO format, with the habits of each tool.

CVAT writes rotated boxes unrotated, with ``attributes.rotation`` in degrees:
they become the box around their corners. Label Studio writes the stored size
of photographs that EXIF rotates, but boxes on the upright image.
"""
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..datasets.coco_check import readable_polygons
from ..errors import UserError
from .account import ROTATED, Account, Kind
from .files import ExportFiles, reading, require_distinct
from .records import Box, ListedExport, ListedImage

_Id = int | str | None


class _Image(msgspec.Struct):
    id: _Id
    file_name: str
    width: float | None = None
    height: float | None = None


class _Category(msgspec.Struct):
    id: _Id
    name: str | int


class _Object(Box, kw_only=True):
    image_id: _Id
    ignore: bool | float | None = None
    attributes: Any = None


class CocoContent(msgspec.Struct):
    """A file in COCO format."""
    images: list[_Image]
    categories: list[_Category]
    annotations: list[_Object]
    info: Any = None
    licenses: Any = None


def read_coco(contents: Mapping[str, CocoContent], files: ExportFiles,
              wanted: Sequence[str]) -> ListedExport:
    """Read COCO files; the name of a file or its folder gives the split.

    The classes ``wanted`` decide if a category id has several names.
    """
    images, names = [], {}
    tool = _tool(*next(iter(contents.items())))
    for path, content in contents.items():
        names[path] = _read_categories(path, content, wanted)
        images += _read_images(path, content, names[path], files)
    classes = {}
    for names_of_file in names.values():
        classes.update(dict.fromkeys(names_of_file.values()))
    for path, names_of_file in names.items():
        for name in sorted(classes.keys() - {*names_of_file.values()}):
            files.account.note(
                Kind.NOTICE, f'files lack the category {name!r}: their images '
                'count as having no such objects', path)
    return ListedExport(tool, images, list(classes),
                        hashed_names='Label Studio' in tool,
                        stored_sizes='Label Studio' in tool,
                        upright='Label Studio' in tool or 'CVAT' in tool)


def _tool(path: str, content: CocoContent) -> str:
    """Return the format, with the tools whose habits matter."""
    if 'Label Studio' in str(content.info):
        return 'Label Studio, COCO'
    if path.endswith('instances_default.json') or content.licenses == [
            dict(name='', id=0, url='')]:
        return 'CVAT, COCO 1.0'
    return 'COCO'


def _read_categories(path: str, content: CocoContent, wanted: Sequence[str]
                     ) -> dict[str, str]:
    """Return the names of the categories by id."""
    names = {}
    for category in content.categories:
        key, name = str(category.id), str(category.name).strip()
        other = names.setdefault(key, name)
        if other == name:
            continue
        if (name in wanted) == (other in wanted):
            raise UserError(f"'{path}': category id {key} is both {other!r} "
                            f'and {name!r}: choose with --classes')
        names[key] = name if name in wanted else other
    # Roboflow's first category may repeat a name, but has no objects.
    used = {str(box.label) for box in content.annotations}
    with reading(path):
        require_distinct({key: name for key, name in names.items()
                          if key in used})
    return names


def _read_images(path: str, content: CocoContent, names: Mapping[str, str],
                 files: ExportFiles) -> list[ListedImage]:
    """Read the images of a file, with their boxes."""
    images, by_id = [], {}
    split = files.split_of_list(path)
    for entry in content.images:
        size = None
        if entry.width and entry.height:
            size = round(entry.width), round(entry.height)
        image = ListedImage(entry.file_name, path, [], split=split,
                            listed_size=size)
        first = by_id.setdefault(str(entry.id), image)
        if first.name != image.name:
            raise UserError(f"'{path}': images '{first.name}' and "
                            f"'{image.name}' have the same id {entry.id}: "
                            'give each its own')
        images.append(image)
    for i, box in enumerate(content.annotations):
        where = f"'{path}', annotation {i}"
        box.label = names.get(str(box.label), f'category_id {box.label}')
        box.crowd = bool(box.crowd or box.ignore)
        _set_box(box, where, files.account)
        image = by_id.get(str(box.image_id))
        if image is None:
            files.account.note(Kind.SKIPPED_BOX,
                               'of images that are not listed', where)
        elif not box.bbox:
            files.account.note(Kind.SKIPPED_BOX, 'without box and polygon',
                               where)
        else:
            image.boxes.append(box)
    return images


def _set_box(box: _Object, where: str, account: Account) -> None:
    """Make polygons lists, and compute missing and rotated boxes."""
    if isinstance(box.mask, list) and box.mask and not isinstance(
            box.mask[0], list):
        box.mask = [box.mask]
    if isinstance(box.mask, list):
        box.mask = readable_polygons(box.mask)
    points = sum(box.mask, []) if isinstance(box.mask, list) else []
    if len(box.bbox or ()) != 4:
        box.bbox = None
    if len(points) > 5 and (box.bbox is None or box.bbox[2:] == [0, 0]):
        account.correct('boxes computed from their polygon', where)
        box.surround(points)
    attributes = box.attributes if isinstance(box.attributes, dict) else {}
    rotation = float(attributes.get('rotation') or 0)
    if rotation and box.bbox and not box.mask:
        account.correct(ROTATED, where)
        box.rotate(rotation)
