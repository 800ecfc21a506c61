# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read exports in COCO format, with the habits of each tool."""
from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import UserError
from .export import Account, Box, Files, Picture

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


class CocoContent(msgspec.Struct):
    """A file in COCO format."""
    images: list[_Image]
    categories: list[_Category]
    annotations: list[_Object]
    info: Any = None
    licenses: Any = None


def read_coco(contents: dict[str, CocoContent], files: Files,
              wanted: Sequence[str]
              ) -> tuple[str, list[Picture], list[str]]:
    """Read an export; return the format, the images, and the classes.

    The classes ``wanted`` decide if a category id has several names.
    """
    pictures, classes = [], {}
    tool = _tool(*next(iter(contents.items())))
    for path, content in contents.items():
        names = _categories(path, content, wanted, files.account)
        classes.update(dict.fromkeys(names.values()))
        pictures += _pictures(path, content, names, files)
    return tool, pictures, list(classes)


def _tool(path: str, content: CocoContent) -> str:
    info = f'{content.info} {path.rpartition("/")[2]}'.replace(
        '_annotations.coco.json', 'Roboflow').replace('roboflow', 'Roboflow')
    for tool in ('Roboflow', 'VGG Image Annotator', 'Label Studio',
                 'FiftyOne'):
        if tool in info:
            return f'{tool}, COCO'
    by_cvat = 'instances_default' in path or content.licenses == [
        dict(name='', id=0, url='')]
    return 'CVAT, COCO 1.0' if by_cvat else 'COCO'


def _categories(path: str, content: CocoContent, wanted: Sequence[str],
                account: Account) -> dict[str, str]:
    """Return the names of the categories by id."""
    names = {}
    for each in content.categories:
        key, name = str(each.id), str(each.name).strip()
        other = names.setdefault(key, name)
        if other == name:
            continue
        if (name in wanted) == (other in wanted):
            raise UserError(f"'{path}': category id {key} is both {other!r} "
                            f'and {name!r}: choose with --classes')
        names[key] = name if name in wanted else other
    account.put_right('repeated categories', path,
                      len(content.categories) - len({*names.values()}))
    return names


def _pictures(path: str, content: CocoContent, names: dict[str, str],
              files: Files) -> list[Picture]:
    """Read the images of a file, with their boxes."""
    pictures, by_id, account = [], {}, files.account
    for image in content.images:
        size = image.width, image.height
        picture = Picture(image.file_name, path, [], files.split_of(path),
                          tuple(map(round, size)) if all(size) else None)
        first = by_id.setdefault(str(image.id), picture)
        if first.name != picture.name:
            raise UserError(f"'{path}': images '{first.name}' and "
                            f"'{picture.name}' have the same id {image.id}: "
                            'give each its own')
        pictures.append(picture)
    kinds = {type(image.id) for image in content.images}
    for i, box in enumerate(content.annotations):
        where = f"'{path}', annotation {i}"
        account.put_right('ids written as text', where,
                          type(box.image_id) not in kinds)
        box.label = names.get(str(box.label), f'category_id {box.label}')
        box.crowd = bool(box.crowd or box.ignore)
        _set_box(box, where, account)
        picture = by_id.get(str(box.image_id))
        if picture is None:
            account.note('boxes left out', 'of images that are not listed',
                         where)
        elif not box.bbox:
            account.note('boxes left out', 'without box and polygon', where)
        else:
            picture.boxes.append(box)
    return pictures


def _set_box(box: Box, where: str, account: Account) -> None:
    """Make polygons lists, and compute a missing box from them."""
    if isinstance(box.mask, list) and not isinstance((*box.mask, [])[0], list):
        account.put_right('flat polygons', where)
        box.mask = [box.mask]
    if len(box.bbox or ()) != 4:
        points = sum(box.mask, []) if isinstance(box.mask, list) else []
        box.bbox = None
        if len(points) > 5:
            account.put_right('boxes computed from their polygon', where)
            box.surround(points)
