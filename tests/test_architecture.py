# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Who may import whom, as docs/architecture.md draws it."""
import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / 'docs/architecture.md').read_text(encoding='utf-8')
PACKAGE = 'qbheat_mm'


def rings():
    """Number of each room's ring, the outermost first."""
    table = PAGE[PAGE.index('| ring | rooms |'):].split('\n\n')[0]
    return {room: number
            for number, row in enumerate(table.splitlines()[2:])
            for room in re.findall(r'`([\w./*]+)`', row)}


RINGS = rings()


def modules():
    """Dotted name and file of every module."""
    for file in sorted((ROOT / PACKAGE).rglob('*.py')):
        if '.mim' not in file.parts:
            parts = file.relative_to(ROOT).with_suffix('').parts
            yield '.'.join(parts).removesuffix('.__init__'), file


MODULES = dict(modules())


def room_of(name):
    """The room that a module belongs to."""
    parts = name.split('.')[1:]
    if not parts:
        return PACKAGE
    if '.'.join(parts[:2]) in RINGS:
        return '.'.join(parts[:2])
    if len(parts) > 1 and f'{parts[0]}/*' in RINGS:
        return f'{parts[0]}/*'
    return parts[0]


def imported(name, source, is_package):
    """Line and name of each module of ours that a source imports."""
    folder = name.split('.') if is_package else name.split('.')[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = folder[:len(folder) - node.level + 1]
            base = '.'.join((above if node.level else []) + (
                [node.module] if node.module else []))
            found = [f'{base}.{alias.name}' for alias in node.names]
        else:
            continue
        for each in found:
            while each and each not in MODULES:  # a name within a module
                each = each.rpartition('.')[0]
            if each:
                yield node.lineno, each


def violations(name, source, is_package=False):
    own = room_of(name)
    for line, other in imported(name, source, is_package):
        room = room_of(other)
        # Importing the package registers its parts: it is no use of them.
        if room in (own, PACKAGE):
            continue
        if RINGS[room] <= RINGS[own]:
            yield f'{name}, line {line}: {own} may not import {room}'


def test_every_room_has_a_ring_and_every_ring_its_rooms():
    assert {room_of(name) for name in MODULES} == set(RINGS)


@pytest.mark.parametrize('name', MODULES)
def test_a_module_imports_its_ring_and_those_inside(name):
    file = MODULES[name]
    found = list(violations(name, file.read_text(encoding='utf-8'),
                            file.name == '__init__.py'))
    assert not found, '\n'.join(
        [*found, 'docs/architecture.md says who may import whom'])


@pytest.mark.parametrize('name, source, wrong', [
    ('models.heads.x', 'def f():\n  import qbheat_mm.cli.settings', 1),
    ('models.heads.x', 'from ...errors import UserError', 0),
    ('models.selfsup.qbheat', 'from ..layers import Former', 0),
    ('models.selfsup.qbheat', 'from ... import engine', 1),
    ('engine.resume', 'from .checkpoint import read', 0),
    ('analysis.hook', 'from ..utils.modules import unwrap', 0),
    ('engine.resume', 'from ..analysis import features', 1),
    ('detection.coco', 'import qbheat_mm', 0),
])
def test_the_rule_itself(name, source, wrong):
    assert len(list(violations(f'{PACKAGE}.{name}', source))) == wrong


def test_nothing_of_the_package_imports_the_tools():
    for name, file in MODULES.items():
        assert not re.search(r'^\s*(from|import) tools\b',
                             file.read_text(encoding='utf-8'), re.M), name
