# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Imports point inward only, as docs/architecture.md says."""
import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / 'docs/architecture.md').read_text(encoding='utf-8')
PACKAGE = 'qbheat_mm'


def layers():
    """Map packages to the number of their layer, outermost first."""
    table = PAGE[PAGE.index('| layer | packages'):].split('\n\n')[0]
    return {package: number
            for number, row in enumerate(table.splitlines()[2:])
            for package in re.findall(r'`(\w+)`', row)}


LAYERS = layers()


def modules():
    """Yield the dotted name and file of each module."""
    for file in sorted((ROOT / PACKAGE).rglob('*.py')):
        if '.mim' not in file.parts:
            parts = file.relative_to(ROOT).with_suffix('').parts
            yield '.'.join(parts).removesuffix('.__init__'), file


MODULES = dict(modules())


def package_of(name):
    """Return the package or module of the table that a module belongs to."""
    return (name.split('.') + [PACKAGE])[1]


def imported(name, source, is_package):
    """Yield the line and name of each of our modules that it imports."""
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
    own = package_of(name)
    for line, other in imported(name, source, is_package):
        package = package_of(other)
        # `import qbheat_mm` only registers its parts.
        if package not in (own, PACKAGE) and LAYERS[package] <= LAYERS[own]:
            yield f'{name}, line {line}: {own} may not import {package}'


def test_every_package_has_a_layer():
    assert {package_of(name) for name in MODULES} == set(LAYERS)


@pytest.mark.parametrize('name', MODULES)
def test_modules_import_only_from_lower_layers(name):
    file = MODULES[name]
    assert not list(violations(name, file.read_text(encoding='utf-8'),
                               file.name == '__init__.py'))


#: Physical lines that a room may have, and what they are worth.
BUDGETS = {
    'qbheat_mm/models': (2181, 'the paper, few operators in a step, any CNN'),
    'qbheat_mm/detection': (965, 'MF-Dec, and COCO data that is checked'),
    'qbheat_mm/datasets': (1570, 'crops, their cache, folders, COCO files'),
    'qbheat_mm/trained': (1588, 'all that loads a trained or published model'),
    'qbheat_mm/engine': (1690, 'small data, exact resuming, parameter groups'),
    'qbheat_mm/evaluation': (360, 'embeddings and k-NN'),
    'qbheat_mm/analysis': (2115, 'figures of the paper, costs as measured'),
    'qbheat_mm/export': (1285, 'ONNX, torch.export, torchvision, timm'),
    'qbheat_mm/annotations': (1105, 'exports of nine tools train at once'),
    'qbheat_mm/apis': (33, 'names for users'),
    'qbheat_mm/cli': (980, 'settings checked before time is spent'),
    'qbheat_mm/utils': (360, 'functions of several rooms, casts, counters'),
    'qbheat_mm': (14774, 'all of it, with the environment check (490)'),
    'tools': (3660, 'own data prepared, benchmarks, published weights'),
    'projects': (3717, 'the demo, two studies, own encoders compared'),
    'tests': (15957, 'promises, not lines; all detectors on own boxes'),
}


@pytest.mark.parametrize('room', BUDGETS)
def test_each_room_keeps_to_its_budget(room):
    """Raise a budget only together with what the new lines are worth."""
    lines = sum(
        len(file.read_text('utf-8').splitlines())
        for file in (ROOT / room).rglob('*.py')
        if not {'.mim', 'configs'} & {*file.relative_to(ROOT).parts[:-1]}
        or room == 'tests')
    assert lines <= BUDGETS[room][0], (
        f'{room} has {lines} lines: remove a mechanism, or raise its budget')


def test_the_package_imports_neither_tools_nor_projects():
    for name, file in MODULES.items():
        assert not re.search(r'^\s*(from|import) (tools|projects)\b',
                             file.read_text(encoding='utf-8'), re.M), name
