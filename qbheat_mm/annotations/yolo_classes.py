# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read the classes of YOLO's exports, from a YAML file or a list.

Label Studio's ``notes.json`` has the ids of the classes, which
``classes.txt`` lists in the order of that file.
"""
import os.path as osp
import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import yaml

from ..errors import UserError
from .files import ExportFiles, reading, require_distinct

_SETTINGS = ('names', 'train', 'val', 'valid', 'test', 'path')


class _Notes(msgspec.Struct):
    """Label Studio's notes.json."""

    class Category(msgspec.Struct):
        id: int
        name: str

    categories: list[Category]


class Classes(NamedTuple):
    """The names of classes by id, and other settings of their file."""
    names: dict[int, str]
    settings: dict
    by_label_studio: bool = False


def find_yolo(files: ExportFiles) -> dict[str, Classes]:
    """Return the content of the files that list YOLO's classes, by path."""
    found, lists = {}, {}
    for path in files.find('.yaml', '.yml'):
        text = files.read(path)
        if re.search(r'^names\s*:', text, re.M):
            with reading(path):
                found[path] = _read_yaml(text)
    for path in files.find('classes.txt', 'obj.names'):
        classes = _read_list(path, files)
        # labelImg writes the same list into every folder.
        if classes not in lists.values():
            lists[path] = classes
    for path, classes in found.items():
        for other, listed in lists.items():
            _require_same_names(path, classes.names, other, listed.names)
    return found or lists


def _require_same_names(path: str, names: Mapping[int, str], other: str,
                        listed: Mapping[int, str]) -> None:
    """Raise UserError if two files name a class differently."""
    for key in sorted(names.keys() & listed.keys()):
        if names[key] != listed[key]:
            raise UserError(
                f"'{path}' calls class {key} {names[key]!r}, but '{other}' "
                f'{listed[key]!r}: correct or delete the wrong file')


def _read_yaml(text: str) -> Classes:
    """Read the classes and other settings of a YAML file."""
    root = yaml.compose(text, yaml.BaseLoader)
    _require_unique_keys(root)
    for key, value in root.value:
        if key.value == 'names':
            _require_unique_keys(value)
    # Names such as 'no' and '007' are text.
    settings = yaml.load(text, yaml.BaseLoader)
    for key in _SETTINGS:
        _require_texts(key, settings.get(key, ''))
    names = settings['names']
    pairs = enumerate(names) if isinstance(names, list) else names.items()
    names = {int(key): name.strip() for key, name in pairs}
    require_distinct(names)
    _require_number(names, settings.get('nc'))
    return Classes(names, settings)


def _require_unique_keys(node: yaml.Node) -> None:
    """Refuse a map with a key twice, of which YAML takes the last."""
    if not isinstance(node, yaml.MappingNode):
        return
    seen = set()
    for key, _ in node.value:
        if key.value in seen:
            raise ValueError(f'it has {key.value!r} twice')
        seen.add(key.value)


def _require_texts(key: str, value: str | list | dict) -> None:
    """Refuse lists in lists, of which aliases make texts of any length."""
    items = [value] if isinstance(value, str) else value
    if isinstance(value, dict):
        items = value.values()
    for item in items:
        if not isinstance(item, str):
            raise ValueError(f'an item of {key!r} is a list, not text')


def _require_number(names: Mapping[int, str], stated: str | None) -> None:
    """Refuse another number of classes than a file states, if it does."""
    if stated is not None and int(stated) != len(names):
        raise ValueError(f'it states {stated} classes, but names {len(names)}')


def _read_list(path: str, files: ExportFiles) -> Classes:
    """Read a list of classes, and CVAT's or Label Studio's file beside it."""
    by_line, settings = files.numbered_lines(path), {}
    with reading(path):
        require_distinct(by_line)
    data = osp.join(osp.dirname(path), 'obj.data')
    if osp.exists(data):
        settings = dict(re.findall(r'^(\w+)\s*=\s*(\S+)', files.read(data),
                                   re.M))
        with reading(path):
            _require_number(by_line, settings.get('classes'))
    notes = osp.join(osp.dirname(path), 'notes.json')
    if not osp.exists(notes):
        return Classes(by_line, settings)
    with reading(notes):
        content = msgspec.json.decode(files.read(notes), type=_Notes)
    by_id = {}
    for category in content.categories:
        by_id[category.id] = category.name.strip()
    names = list(by_line.values())
    in_order = [category.name.strip() for category in content.categories]
    if names not in (in_order, [by_id[key] for key in sorted(by_id)]):
        raise UserError(f"'{path}' lists the classes {names}, but '{notes}' "
                        f'{in_order}: delete the wrong one')
    return Classes(by_id, settings, by_label_studio=True)


def yaml_beside(path: str) -> str:
    """The YAML file that may name the images, which has the classes."""
    if path.endswith(('.yaml', '.yml')):
        return path
    return osp.join(osp.dirname(path), 'data.yaml')
