# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Configurations that come as text inside a checkpoint: read, never run.

mmengine writes the configuration of a run into its checkpoints as Python
text, all of it plain: assignments of literals and calls of ``dict``. Its
inferencers run that text when they get no other configuration, and whoever
wrote the file wrote the text.
"""
import ast
import inspect
import re
import sys
from typing import Any

from mmengine.config.utils import MODULE2PACKAGE
from mmengine.utils import get_object_from_string

_TOOLBOXES = {*MODULE2PACKAGE, 'mmengine', 'mmcv', 'qbheat_mm'}
# Where the full name of a class may lie; elsewhere a name could be that of
# anything that Python can call.
_PACKAGES = tuple(f'{name}.' for name in _TOOLBOXES) + (
    'torch.nn.', 'torch.optim.', 'torchvision.transforms.')
_COLLATE = ('default_collate', 'pseudo_collate')
_NUMBERS = {'inf': float('inf'), 'nan': float('nan')}


def read_settings(text: Any) -> dict:
    """What a configuration text sets, as far as it is plain.

    Args:
        text (Any): Python text; anything else sets nothing.

    Returns:
        dict: Names and values; what is not plain is None.
    """
    return _Reader(text).settings


def find_obstacle(text: Any) -> str | None:
    """What keeps a configuration text from being run without danger.

    Args:
        text (Any): Python text.

    Returns:
        str | None: The place in one line, as ``"line 3: import os"``; None
        for plain text, which mmengine may run.
    """
    obstacles = _Reader(text).obstacles
    return obstacles[0] if obstacles else None


class _Reader:
    """Read a text; collect its settings and all that is not plain."""

    def __init__(self, text: Any) -> None:
        self.text = text
        self.settings: dict = {}
        self.obstacles: list[str] = []
        try:
            # mmengine writes the text into a file, replaces {{...}} and
            # reads it again: what stands here must be what is run there.
            text.encode()
            body = ast.parse(text).body
        except (AttributeError, SyntaxError, ValueError, RecursionError,
                MemoryError):
            self.obstacles.append('it is no Python text')
            return
        for mark in ('{{', '\r'):
            if mark in text:
                self.obstacles.append(f'it holds {mark!r}')
        try:
            for statement in body:
                self._read(statement)
        except RecursionError:
            self.obstacles.append('it is nested too deep')

    def _read(self, node: ast.stmt) -> None:
        """Read one statement."""
        if (not isinstance(node, ast.Assign) or len(node.targets) != 1
                or not isinstance(node.targets[0], ast.Name)):
            self._refuse(node)
            return
        name, value = node.targets[0].id, self._value(node.value)
        if name == '_base_' or (name == 'custom_imports'
                                and not _is_known(value)):
            self._refuse(node)
        self.settings[name] = value

    def _value(self, node: ast.AST) -> Any:
        """The value of an expression; None where it is not plain."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            values = [self._value(item) for item in node.elts]
            return values if isinstance(node, ast.List) else tuple(values)
        if isinstance(node, ast.Dict):
            return self._dict(node, zip(node.keys, node.values))
        if _is_dict_call(node):
            # dict(a=1), or dict({'a.b': 1}) where a key is no name.
            found = [self._value(item) for item in node.args]
            named = self._dict(node, ((ast.Constant(item.arg), item.value)
                                      for item in node.keywords))
            return {**found[0], **named} if found else named
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._value(node.operand)
            if isinstance(value, int | float):
                return -value
        self._refuse(node)
        return _NUMBERS.get(node.id) if isinstance(node, ast.Name) else None

    def _dict(self, node: ast.AST, items) -> dict:
        """A dictionary; a type in it must name a part of the toolboxes."""
        found = {}
        for key, value in items:
            if not isinstance(key, ast.Constant) or key.value is None:
                self._refuse(node)  # as in dict(**other)
                continue
            name, value = key.value, self._value(value)
            if (name in ('type', 'constructor') and isinstance(value, str)
                    and not _is_part(value)):
                self.obstacles.append(f'it holds {name}={value!r}')
            found[name] = value
        return found

    def _refuse(self, node: ast.AST) -> None:
        """Note a place that is not plain."""
        source = ast.get_source_segment(self.text, node) or ''
        self.obstacles.append(
            f'line {node.lineno}: {" ".join(source.split())[:60]}')


def _is_dict_call(node: ast.AST) -> bool:
    """Whether this is ``dict(...)`` with names, after a literal at most."""
    return (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id == 'dict' and len(node.args) < 2
            and all(isinstance(item, ast.Dict) for item in node.args))


def _is_part(name: str) -> bool:
    """Whether a type names a part of a toolbox, and not any callable.

    A registry that does not know a name with dots imports it.
    """
    if '.' not in name:
        return True
    *scope, last = name.split('.')
    if len(scope) == 1:
        return scope[0] in _TOOLBOXES and last[:1].isupper()
    if not name.startswith(_PACKAGES):
        return False
    try:
        part = get_object_from_string(name)
    # Importing can fail in any way; what cannot be had cannot be run.
    except Exception:
        return False
    home = f'{getattr(part, "__module__", "")}.'
    return home.startswith(_PACKAGES) and (
        inspect.isclass(part) or last in _COLLATE)


def _is_known(custom_imports: Any) -> bool:
    """Whether modules to import are imported already or of a toolbox."""
    if not isinstance(custom_imports, dict):
        return False
    modules = custom_imports.get('imports')
    modules = [modules] if isinstance(modules, str) else modules
    return isinstance(modules, list | tuple) and all(
        isinstance(name, str) and re.fullmatch(r'[\w.]+', name) and
        (name in sys.modules or name.split('.')[0] in _TOOLBOXES)
        for name in modules)
