# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Find out the format of an export of boxes, and read it.

datumaro's importers (1.13.12) are not used: they read two of the ten exports
of the tests, and in one of these take a class with the id 0 for background.
"""
from collections.abc import Sequence

import msgspec

from ..errors import UserError
from .account import Account
from .coco import CocoContent, read_coco
from .files import ExportFiles, reading
from .labelme import LabelmeContent, read_labelme
from .lookup import ImageLookup
from .records import ListedExport
from .voc import find_voc, read_voc
from .yolo import read_yolo
from .yolo_boxes import are_boxes
from .yolo_classes import Classes, find_yolo


def read_boxes(lookup: ImageLookup, wanted: Sequence[str]) -> ListedExport:
    """Read the only export of a folder.

    Args:
        lookup (ImageLookup): With the files of the export.
        wanted (Sequence[str]): The classes to use, if they are chosen.

    Raises:
        UserError: If there is none, or more than one.
    """
    files = lookup.files
    coco, labelme, voc, yolo = _find(files)
    examples = [next(iter(paths)) for paths in (coco, labelme, voc) if paths]
    if examples and yolo and not _has_labels(files):
        yolo = {}  # lists of the classes of another export
    examples += yolo
    if len(examples) > 1:
        raise UserError(f"'{files.root}' holds several exports, such as "
                        f"'{examples[0]}' and '{examples[1]}': move all but "
                        'one elsewhere')
    if coco:
        return read_coco(coco, files, wanted)
    if labelme:
        return read_labelme(labelme, files)
    if voc:
        return read_voc(voc, files)
    if yolo:
        return read_yolo(yolo, lookup)
    raise UserError(f"'{files.only or files.root}' holds no COCO, YOLO "
                    '(data.yaml or classes.txt), Pascal VOC or labelme files: '
                    'export one of these, and unpack it')


def holds_boxes(folder: str) -> bool:
    """Whether a folder or file is an export of boxes, not of classes."""
    files = ExportFiles(folder, None, Account())
    coco, labelme, voc, yolo = _find(files)
    return bool(coco or labelme or voc or yolo and _has_labels(files))


def _has_labels(files: ExportFiles) -> bool:
    """Whether there are YOLO's label files, not only lists of classes."""
    for path in files.find_texts():
        lines = files.lines(path)
        if lines and are_boxes(lines):
            return True
    return False


def _find(files: ExportFiles) -> tuple[
        dict[str, CocoContent], dict[str, LabelmeContent], list[str],
        dict[str, Classes]]:
    """Find the files of each format: COCO, labelme, Pascal VOC, YOLO."""
    coco, labelme = {}, {}
    for path in files.find('.json'):
        with reading(path):
            content = _decode(path, files)
        if isinstance(content, CocoContent):
            coco[path] = content
        elif content is not None:
            labelme[path] = content
    return coco, labelme, find_voc(files), find_yolo(files)


def _decode(path: str, files: ExportFiles
            ) -> CocoContent | LabelmeContent | None:
    """Read a JSON file, with numbers as text if there is no other way."""
    text = files.read(path)
    try:
        keys = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).keys()
    except msgspec.ValidationError:  # not an object
        return None
    if {'images', 'categories', 'annotations'} <= keys:
        content_type = CocoContent
    elif {'shapes', 'imagePath'} <= keys:
        content_type = LabelmeContent
    else:
        return None
    try:
        return msgspec.json.decode(text, type=content_type)
    except msgspec.ValidationError as error:
        files.account.correct('files with numbers written as text',
                              f"'{path}': {error}")
        return msgspec.json.decode(text, type=content_type, strict=False)
