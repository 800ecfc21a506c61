# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read exports in COCO format, with the habits of each tool."""
from typing import Any

import msgspec

from ..errors import UserError
from .export import Account, Box, Export, Picture, number, split_of
from .files import Files


class _Record(msgspec.Struct, gc=False):
    """An image, a category or an annotation."""
    id: Any = None
    file_name: Any = ''
    width: Any = None
    height: Any = None
    name: Any = None
    supercategory: Any = None
    image_id: Any = None
    category_id: Any = None
    bbox: Any = None
    segmentation: Any = None
    iscrowd: Any = 0
    ignore: Any = 0


class CocoContent(msgspec.Struct):
    """The content of a file; all but the annotations is short."""
    images: list[_Record]
    categories: list[_Record]
    annotations: list[_Record] = []
    info: Any = None
    licenses: Any = None


def read_coco(contents: dict[str, CocoContent], files: Files,
              account: Account, wanted: list[str] | None,
              keep_crowds: bool | None) -> Export:
    """Read the files of one export.

    Args:
        contents (dict[str, CocoContent]): By path.
        files (Files): The export's files.
        account (Account): Receives what was put right or left out.
        wanted (list[str], optional): Classes to use, which decide if a
            category id has several names.
        keep_crowds (bool, optional): Whether crowds stay crowds. By default,
            they become objects if the tool marks all masks as crowds.
    """
    tool, pictures, parents, classes = '', [], {}, {}
    splits = {path: split_of(path.removeprefix(files.root))
              for path in contents}
    unnamed = [path for path, split in splits.items() if not split]
    if len(unnamed) == 1 and len(contents) > 1:
        splits[unnamed[0]] = 'train'
    for path, content in contents.items():
        tool = tool or _tool(path, content)
        names = _categories(path, content, wanted, account)
        parents.update((each.supercategory, each.name)
                       for each in content.categories
                       if each.supercategory != each.name)
        classes.update(dict.fromkeys(names.values()))
        pictures += _pictures(path, content, names, splits[path], files,
                              account)
    boxes = [box for picture in pictures for box in picture.boxes]
    for name in parents.keys() & classes.keys() - {b.label for b in boxes}:
        account.put_right('unused parent categories', name)
        del classes[name]
    _check_crowds(boxes, tool, keep_crowds, account)
    return Export(tool or 'COCO', pictures, list(classes))


def _tool(path: str, content: CocoContent) -> str:
    info = str(content.info)
    if path.endswith('_annotations.coco.json') or 'roboflow' in info:
        return 'Roboflow, COCO'
    for name in ('VGG Image Annotator', 'Label Studio', 'FiftyOne'):
        if name in info:
            return f'{name}, COCO'
    if 'instances_default' in path or content.licenses == [
            dict(name='', id=0, url='')]:
        return 'CVAT, COCO 1.0'
    return ''


def _key(value: object) -> str:
    """Make ids comparable that are numbers in one place, text in another."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _categories(path: str, content: CocoContent, wanted: list[str] | None,
                account: Account) -> dict[str, str]:
    """Return the names of the categories by id."""
    names = {}
    for each in content.categories:
        key, name = _key(each.id), str(each.name).strip()
        each.name = name
        other = names.setdefault(key, name)
        if wanted and (name in wanted) != (other in wanted):
            names[key] = name if name in wanted else other
        elif other != name:
            raise UserError(
                f"'{path}': category id {key} is both {other!r} and {name!r}:"
                f' choose with --classes, e.g. --classes {other}')
    repeated = len(content.categories) - len(set(names.values()))
    account.put_right('repeated categories', path, repeated)
    return names


def _pictures(path: str, content: CocoContent, names: dict[str, str],
              split: str, files: Files, account: Account) -> list[Picture]:
    """Read the images of a file, with their boxes."""
    pictures = {}
    for image in content.images:
        key, file = _key(image.id), files.locate(str(image.file_name), path)
        sides = [number(side or 0, f"'{path}': the size of image {key}",
                        account) for side in (image.width, image.height)]
        picture = Picture(file or str(image.file_name), [], split,
                          (round(sides[0]), round(sides[1]))
                          if all(sides) else None, bool(file))
        if key not in pictures:
            pictures[key] = picture
        elif pictures[key].file == picture.file:
            account.put_right('repeated images', image.file_name)
        else:
            raise UserError(f"'{path}': images '{pictures[key].file}' and "
                            f"'{picture.file}' have the same id {key}")
    kinds = {type(image.id) for image in content.images}
    for i, each in enumerate(content.annotations):
        if type(each.image_id) not in kinds:
            account.put_right('ids written as text', each.image_id)
        picture = pictures.get(_key(each.image_id))
        if picture is None:
            account.note('boxes left out', "of images that aren't listed",
                         f'image_id {each.image_id}')
            continue
        box = _box(each, names, f"'{path}': annotation {i}", account)
        if box is not None:
            picture.boxes.append(box)
    return list(pictures.values())


def _box(each: _Record, names: dict[str, str], where: str,
         account: Account) -> Box | None:
    """Read an annotation; None if it has neither box nor polygon."""
    label = names.get(_key(each.category_id),
                      f'category_id {_key(each.category_id)}')
    crowd = str(each.iscrowd) in ('1', 'True')
    if str(each.ignore) in ('1', 'True'):
        account.put_right("'ignore' marks that became crowds", where)
        crowd = True
    mask = each.segmentation or None
    if isinstance(mask, list):
        if not isinstance(mask[0], list):
            account.put_right('flat polygons', where)
            mask = [mask]
        mask = [[x if type(x) in (int, float) else number(x, where, account)
                 for x in points] for points in mask]
        whole = [points for points in mask
                 if len(points) >= 6 and len(points) % 2 == 0]
        account.put_right('polygons of fewer than three points', where,
                          len(mask) - len(whole))
        mask = whole or None
    if each.bbox:
        sides = [x if type(x) in (int, float) else number(x, where, account)
                 for x in each.bbox]
        if len(sides) != 4:
            raise UserError(f'{where} has the bbox {each.bbox}: it needs x, '
                            'y, width and height')
        return Box(label, sides, mask, crowd)
    if isinstance(mask, list):
        account.put_right('boxes computed from their polygon', where)
        return Box.around(label, mask, crowd=crowd)
    account.note('boxes left out', 'without box and polygon', where)
    return None


def _check_crowds(boxes: list[Box], tool: str, keep: bool | None,
                  account: Account) -> None:
    """Turn crowds into objects where a tool marks all masks as crowds."""
    crowds = [box for box in boxes if box.crowd]
    of_tool = len(crowds) == len(boxes) or tool.startswith('CVAT') and all(
        box.crowd == isinstance(box.segmentation, dict) for box in boxes)
    if keep is None and not of_tool and 5 * len(crowds) > len(boxes):
        raise UserError(
            f'{len(crowds)} of {len(boxes)} boxes are crowds (iscrowd=1), '
            'which training ignores: choose --keep-crowds, or '
            '--no-keep-crowds to make them objects')
    if crowds and not keep and (of_tool or keep is False):
        for box in crowds:
            box.crowd = False
        account.put_right('masks marked as crowds that became objects', '',
                          len(crowds))
