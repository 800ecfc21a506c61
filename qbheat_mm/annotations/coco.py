# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read exports in COCO format, with the habits of each tool."""
from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import UserError
from .export import Account, Box, Files, Picture, number


class CocoContent(msgspec.Struct):
    """A file in COCO format."""
    images: list[dict[str, Any]]
    categories: list[dict[str, Any]]
    annotations: list[dict[str, Any]]
    info: Any = None
    licenses: Any = None


def read_coco(contents: dict[str, CocoContent], files: Files,
              wanted: Sequence[str] | None, keep_crowds: bool | None
              ) -> tuple[str, list[Picture], list[str]]:
    """Read an export; return the format, the images, and the classes.

    The classes ``wanted`` decide if a category id has several names.
    """
    pictures, classes, parents = [], {}, {}
    tool = _tool(*next(iter(contents.items())))
    for path, content in contents.items():
        names = _categories(path, content, wanted, files.account)
        classes.update(dict.fromkeys(names.values()))
        parents.update({each.get('supercategory'): each['name']
                        for each in content.categories
                        if each.get('supercategory') != each['name']})
        # One file without a name is the training set of the others.
        split = files.split_of(path) or (
            'train' if len(contents) > 1 else '')
        pictures += _pictures(path, content, names, split, files.account)
    boxes = [box for picture in pictures for box in picture.boxes]
    for name in parents.keys() & classes.keys() - {b.label for b in boxes}:
        files.account.put_right('unused parent categories', name)
        del classes[name]
    _check_crowds(boxes, tool, keep_crowds, files.account)
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


def _key(value: object) -> str:
    """Make ids comparable that are numbers here and text there."""
    return str(int(value) if isinstance(value, float) else value).strip()


def _categories(path: str, content: CocoContent,
                wanted: Sequence[str] | None, account: Account
                ) -> dict[str, str]:
    """Return the names of the categories by id."""
    names = {}
    for each in content.categories:
        key, name = _key(each.get('id')), str(each.get('name')).strip()
        each['name'] = name
        other = names.setdefault(key, name)
        if other == name:
            continue
        if (name in (wanted or ())) == (other in (wanted or ())):
            raise UserError(f"'{path}': category id {key} is both {other!r} "
                            f'and {name!r}: choose with --classes')
        names[key] = name if name in wanted else other
    account.put_right('repeated categories', path,
                      len(content.categories) - len({*names.values()}))
    return names


def _pictures(path: str, content: CocoContent, names: dict[str, str],
              split: str, account: Account) -> list[Picture]:
    """Read the images of a file, with their boxes."""
    pictures = {}
    for image in content.images:
        key = _key(image.get('id'))
        size = tuple(round(number(image.get(side) or 0,
                                  f"'{path}', image {key}", account))
                     for side in ('width', 'height'))
        picture = Picture(str(image.get('file_name')), path, [], split,
                          size if all(size) else None)
        if pictures.setdefault(key, picture).name != picture.name:
            raise UserError(f"'{path}': images '{pictures[key].name}' and "
                            f"'{picture.name}' have the same id {key}")
    account.put_right('repeated images', path,
                      len(content.images) - len(pictures))
    kinds = {type(image.get('id')) for image in content.images}
    for i, each in enumerate(content.annotations):
        where = f"'{path}', annotation {i}"
        key = _key(each.get('image_id'))
        if type(each.get('image_id')) not in kinds:
            account.put_right('ids written as text', where)
        box = _box(each, names, where, account)
        if key not in pictures:
            account.note('boxes left out', 'of images that are not listed',
                         where)
        elif box is None:
            account.note('boxes left out', 'without box and polygon', where)
        else:
            pictures[key].boxes.append(box)
    return list(pictures.values())


def _box(each: dict[str, Any], names: dict[str, str], where: str,
         account: Account) -> Box | None:
    """Read an annotation; None if it has neither box nor polygon."""
    key = _key(each.get('category_id'))
    label = names.get(key, f'category_id {key}')
    crowd = any(number(each.get(mark) or 0, where)
                for mark in ('iscrowd', 'ignore'))
    mask = each.get('segmentation') or None
    if isinstance(mask, list):
        if not isinstance(mask[0], list):
            account.put_right('flat polygons', where)
            mask = [mask]
        mask = [_numbers(points, where, account) for points in mask]
        whole = [points for points in mask
                 if len(points) > 5 and len(points) % 2 == 0]
        account.put_right('polygons of fewer than three points', where,
                          len(mask) - len(whole))
        mask = whole or None
    sides = _numbers(each.get('bbox') or (), where, account)
    if len(sides) == 4:
        return Box(label, sides, mask, crowd)
    if sides:
        raise UserError(f'{where} has the bbox {sides}: it needs 4 numbers')
    if not isinstance(mask, list):
        return None
    account.put_right('boxes computed from their polygon', where)
    return Box.around(label, sum(mask, []), mask=mask, crowd=crowd)


def _numbers(values: Sequence, where: str, account: Account) -> list[float]:
    return [x if type(x) in (int, float) else number(x, where, account)
            for x in values]


def _check_crowds(boxes: Sequence[Box], tool: str, keep: bool | None,
                  account: Account) -> None:
    """Turn crowds into objects where a tool marks all masks as crowds."""
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
        account.put_right('masks marked as crowds that became objects', '',
                          len(crowds))
